"""Flags of Sample Factory that have no counterpart here: command lines from there have them.

Values that ask for nothing are taken silently; who asks for what is not there is told so, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["CARRIED", "FOREIGN_FLAGS", "ForeignFlag", "describe_foreign", "is_harmless"]


@dataclass(frozen=True)
class ForeignFlag:
    """A flag that only Sample Factory has.

    Attributes:
        default: What it is there unless it is given; None: nothing, and a text or number where it is.
        reason: Why other values are refused; empty: nothing here depends on it, and any value is taken.
        is_of_doom: Whether its examples of Doom alone have it.
    """

    default: bool | int | float | str | tuple[int, ...] | None
    reason: str = ""
    is_of_doom: bool = False

    def allows(self, words: Sequence[str]) -> bool:
        """Tell whether a value asks for nothing that is not there.

        Args:
            words: Of the value, as given; none: the flag alone.
        """
        if not self.reason:
            return True
        if not words:
            return self.default == ()
        text = " ".join(words).strip().lower()
        if isinstance(self.default, bool):
            return text in (("true", "1", "yes") if self.default else ("false", "0", "no"))
        return text == ("" if self.default == () else str(self.default).lower())


_GPU_ENVIRONMENTS = "only families whose environments may live on a GPU have it, such as sf_examples.brax"
_OF_DOOM = "it is one of sf_examples.vizdoom's programs alone"
_PBT = "there is no population-based training here"

CARRIED = "sample_factory_options"
"""Flag of runs that `sample_profiler.compat` started: options that only the program knows that was written for it."""

FOREIGN_FLAGS = {
    "algo": ForeignFlag("APPO", "the algorithm is always asynchronous or synchronous PPO (--async_rl)"),
    "actor_worker_gpus": ForeignFlag((), _GPU_ENVIRONMENTS),
    "env_gpu_actions": ForeignFlag(False, _GPU_ENVIRONMENTS),
    "env_gpu_observations": ForeignFlag(True),  # what is not on a GPU is read all the same
    "use_env_info_cache": ForeignFlag(False),  # spaces are asked for at every start
    "use_record_episode_statistics": ForeignFlag(False),  # an episode's figures are those of the whole episode
    "episode_counter": ForeignFlag(False),  # episodes are always counted
    "sample_env_episodes": ForeignFlag(256),
    "csv_folder_name": ForeignFlag(None),
    "push_to_hub": ForeignFlag(False, "sample-profiler export RUN_DIR --push_to_hub user/name publishes a policy"),
    "hf_repository": ForeignFlag(None),
    "train_script": ForeignFlag(None),
    "enjoy_script": ForeignFlag(None),
    "with_pbt": ForeignFlag(False, _PBT),
    "pbt_mix_policies_in_one_env": ForeignFlag(True),
    "pbt_period_env_steps": ForeignFlag(5_000_000),
    "pbt_start_mutation": ForeignFlag(20_000_000),
    "pbt_replace_fraction": ForeignFlag(0.3),
    "pbt_mutation_rate": ForeignFlag(0.15),
    "pbt_replace_reward_gap": ForeignFlag(0.1),
    "pbt_replace_reward_gap_absolute": ForeignFlag(1e-6),
    "pbt_optimize_gamma": ForeignFlag(False),
    "pbt_target_objective": ForeignFlag("true_objective"),
    "pbt_perturb_min": ForeignFlag(1.1),
    "pbt_perturb_max": ForeignFlag(1.5),
    "num_agents": ForeignFlag(-1, _OF_DOOM, is_of_doom=True),
    "num_humans": ForeignFlag(0, _OF_DOOM, is_of_doom=True),
    "num_bots": ForeignFlag(-1, _OF_DOOM, is_of_doom=True),
    "start_bot_difficulty": ForeignFlag(None, is_of_doom=True),  # nothing there depends on it, either
    "timelimit": ForeignFlag(None, _OF_DOOM, is_of_doom=True),
    "record_to": ForeignFlag(None, _OF_DOOM, is_of_doom=True),
}
"""By name. What only counts where another one is switched on, such as those of populations, takes any value."""


def is_harmless(name: str, words: Sequence[str]) -> bool:
    """Tell whether a flag is Sample Factory's alone, and its value asks for nothing.

    Args:
        name: Of the flag, as given after its two dashes.
        words: Of its value, as given.
    """
    foreign = FOREIGN_FLAGS.get(_known_name(name))
    return foreign is not None and foreign.allows(words)


def describe_foreign(name: str) -> str:
    """Return the message about a flag that only Sample Factory has, or nothing for any other name.

    Args:
        name: Name of the flag, as given after its two dashes.
    """
    if _known_name(name) == CARRIED:
        return (
            "the run is of a program that was written for Sample Factory, which makes its environment: train, play and "
            "evaluate it by `python -m sample_profiler.compat` with that program's own scripts"
        )
    foreign = FOREIGN_FLAGS.get(_known_name(name))
    if foreign is None:
        return ""
    why = foreign.reason or "nothing here depends on it"
    return f"--{name} is not a flag here but Sample Factory's: {why}; leave it out (--help lists all flags)"


def _known_name(name: str) -> str:
    return name.replace("-", "_")
