"""Flags of Sample Factory 2.1.1 that have no counterpart here: who comes from there is told so, and what to do."""

from __future__ import annotations

__all__ = ["describe_foreign"]

_GPU_ENVIRONMENTS = "only families whose environments may live on a GPU have it, such as sf_examples.brax"
_HUB = "nothing is published here"
_MATCHES = "each match of Doom has its own number of players, no humans and no bots here; see docs/migrating.md"
_FOREIGN = {
    "algo": "the algorithm is always asynchronous or synchronous PPO (--async_rl)",
    "actor_worker_gpus": _GPU_ENVIRONMENTS,
    "env_gpu_actions": _GPU_ENVIRONMENTS,
    "env_gpu_observations": _GPU_ENVIRONMENTS,
    "use_env_info_cache": "spaces are asked for at every start here",
    "use_record_episode_statistics": "episodes are always counted here",
    "video_name": "the video is always called replay",
    "push_to_hub": _HUB,
    "hf_repository": _HUB,
    "train_script": _HUB,
    "enjoy_script": _HUB,
    "num_agents": _MATCHES,
    "num_humans": _MATCHES,
    "num_bots": _MATCHES,
    "start_bot_difficulty": _MATCHES,
    "timelimit": "each match of Doom has its own length here; see docs/migrating.md",
    "record_to": "there are no demos of Doom here, --save_video records what is played",
    "with_wandb": "there is no Weights & Biases here, figures are in TensorBoard",
    "with_pbt": "there is no population-based training here",
}
_FOREIGN_PREFIXES = {"wandb_": "with_wandb", "pbt_": "with_pbt"}


def describe_foreign(name: str) -> str:
    """Return the message about a flag that only Sample Factory has, or nothing for any other name.

    Args:
        name: Name of the flag, as given after its two dashes.
    """
    known = name.replace("-", "_")
    known = next((flag for prefix, flag in _FOREIGN_PREFIXES.items() if known.startswith(prefix)), known)
    if known not in _FOREIGN:
        return ""
    return f"--{name} is not a flag here but Sample Factory's: {_FOREIGN[known]}; leave it out (--help lists all flags)"
