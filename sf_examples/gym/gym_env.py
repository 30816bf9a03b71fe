"""Any environment that gymnasium knows, alone as the package has it, or many of one in a vector."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from sample_profiler.envs.gymnasium_ids import GYM_DEFAULTS, find_gym_env, gym_env_names, make_gym_env

if TYPE_CHECKING:
    import gymnasium

    from sample_profiler.config import Config
    from sample_profiler.envs import EnvPlacement

__all__ = ["GYM_DEFAULTS", "find_gym_env", "gym_env_names", "make_gym_env", "make_gym_vector"]


def make_gym_vector(
    num_members: int,
    full_env_name: str,
    cfg: Config,
    env_config: EnvPlacement | None,
    render_mode: str | None = None,
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Make a vector of an environment from gymnasium's registry, for ``--batched_sampling=True``.

    Args:
        num_members: Number of environments in it.
        full_env_name: gymnasium's id.
        cfg: The run's configuration.
        env_config: Where the vector will run.
        render_mode: As in gymnasium.
    """
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    make = functools.partial(make_gym_env, full_env_name, cfg, env_config, render_mode)
    return SyncVectorEnv([make] * num_members, autoreset_mode=AutoresetMode.SAME_STEP)
