"""MuJoCo environments by the names their users know, in gymnasium's current versions."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

from sample_profiler.errors import EnvError

if TYPE_CHECKING:
    import gymnasium

    from sample_profiler.config import Config
    from sample_profiler.envs import EnvPlacement

__all__ = ["MUJOCO_DEFAULTS", "MUJOCO_ENVS", "make_mujoco_env"]

logger = logging.getLogger(__name__)

MUJOCO_ENVS = {
    "mujoco_ant": "Ant-v5",
    "mujoco_doublependulum": "InvertedDoublePendulum-v5",
    "mujoco_halfcheetah": "HalfCheetah-v5",
    "mujoco_hopper": "Hopper-v5",
    "mujoco_humanoid": "Humanoid-v5",
    "mujoco_humanoidstandup": "HumanoidStandup-v5",
    "mujoco_pendulum": "InvertedPendulum-v5",
    "mujoco_pusher": "Pusher-v5",
    "mujoco_reacher": "Reacher-v5",
    "mujoco_standup": "HumanoidStandup-v5",
    "mujoco_swimmer": "Swimmer-v5",
    "mujoco_walker": "Walker2d-v5",
    "mujoco_walker2d": "Walker2d-v5",
}
"""gymnasium's id by our name; two environments have a second name that is in use elsewhere."""

MUJOCO_DEFAULTS = {
    "adaptive_stddev": False,
    "async_rl": False,
    "batch_size": 1024,
    "encoder_mlp_layers": (64, 64),
    "exploration_loss_coeff": 0.0,
    "kl_loss_coeff": 0.1,
    "learning_rate": 0.00295,
    "lr_schedule": "linear_decay",
    "max_grad_norm": 3.5,
    "nonlinearity": "tanh",
    "num_batches_per_epoch": 4,
    "num_envs_per_worker": 8,
    "num_epochs": 2,
    "num_workers": 8,
    "policy_initialization": "torch_default",
    "ppo_clip_ratio": 0.2,
    "rollout": 64,
    "train_for_env_steps": 10_000_000,
    "use_rnn": False,
    "value_bootstrap": True,
    "value_loss_coeff": 1.3,
}
"""What the family has instead of the flags' own defaults."""


def make_mujoco_env(
    full_env_name: str, cfg: Config, _env_config: EnvPlacement | None, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """Make one of :data:`MUJOCO_ENVS`, with float32 observations.

    Raises:
        EnvError: MuJoCo is not installed.
    """
    # Here and not above: the training script is imported by processes that never see an environment.
    import gymnasium

    from sample_profiler.envs.wrappers import Float32Observation, skip_and_stack

    _send_warnings_to_log()
    env = gymnasium.make(MUJOCO_ENVS[full_env_name], render_mode=render_mode, disable_env_checker=True)
    return skip_and_stack(Float32Observation(env), cfg.environment)


@functools.cache
def _send_warnings_to_log() -> None:
    """Have MuJoCo log its warnings; by itself it prints them and writes a file into the current folder."""
    try:
        import mujoco
    except ImportError as error:
        raise EnvError("MuJoCo is not installed: install sample-profiler[mujoco]") from error
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_log_warning)


@functools.lru_cache(maxsize=64)
def _log_warning(text: str) -> None:
    # Cached: every environment of a worker gives the same warnings.
    logger.warning("MuJoCo: %s", text)
