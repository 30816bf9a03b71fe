"""Trains on one of EnvPool's pools: ``python -m sf_examples.envpool.train_envpool --env=CartPole-v1``."""

from __future__ import annotations

import sys

from sample_profiler.envs import register_env_fallback
from sf_examples.envpool.envpool_env import EnvPoolOptions, envpool_names, find_envpool_env
from sf_examples.family import Family
from sf_examples.vectors.vector_defaults import vector_defaults

__all__ = ["FAMILY", "main", "register_envpool_envs"]


def register_envpool_envs() -> None:
    """Have names that nobody registered looked up in EnvPool."""
    register_env_fallback(find_envpool_env, envpool_names)


FAMILY = Family(register=register_envpool_envs, defaults=vector_defaults, extra_parts=(EnvPoolOptions,))

main = FAMILY.train

if __name__ == "__main__":
    sys.exit(main())
