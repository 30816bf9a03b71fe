"""Trains on vectors of gymnasium's environments: one call steps many, and its members end their episodes one by one.

``python -m sf_examples.gym.train_gym_vector --env=CartPole-v1 --vector_size=8``

For simulators that step many environments at once; a vector of gymnasium's own steps them one after another.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from sample_profiler.config import option
from sample_profiler.envs import EnvPlacement, MakeEnv, register_env_fallback
from sf_examples.family import Family
from sf_examples.gym.gym_env import GYM_DEFAULTS, find_gym_env, gym_env_names, make_gym_vector

__all__ = ["FAMILY", "VECTOR_DEFAULTS", "VectorOptions", "main", "register_gym_vectors"]

VECTOR_DEFAULTS = {key: value for key, value in GYM_DEFAULTS.items() if key != "num_envs_per_worker"} | {
    "batched_sampling": True,
    "rollout": 32,
}


@dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """Vectors."""

    vector_size: int = option(8, minimum=2)
    """Number of environments in one vector."""


def make_vector(full_env_name: str, cfg: Any, env_config: EnvPlacement | None, render_mode: str | None = None) -> Any:
    """Make one vector."""
    return make_gym_vector(cfg.vector_size, full_env_name, cfg, env_config, render_mode)


def find_gym_vector(name: str) -> MakeEnv | None:
    """Return :func:`make_vector` if gymnasium knows the id, else ``None``."""
    return None if find_gym_env(name) is None else make_vector


def register_gym_vectors() -> None:
    """Have names that nobody registered looked up in gymnasium."""
    register_env_fallback(find_gym_vector, gym_env_names)


FAMILY = Family(register=register_gym_vectors, defaults=VECTOR_DEFAULTS, extra_parts=(VectorOptions,))

main = FAMILY.train

if __name__ == "__main__":
    sys.exit(main())
