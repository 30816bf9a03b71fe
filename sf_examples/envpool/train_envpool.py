"""Trains on one of EnvPool's pools: ``python -m sf_examples.envpool.train_envpool --env=CartPole-v1``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler.envs import register_env_fallback
from sf_examples.envpool.envpool_env import ENVPOOL_DEFAULTS, EnvPoolOptions, envpool_names, find_envpool_env

__all__ = ["main", "register_envpool_envs"]


def register_envpool_envs() -> None:
    """Have names that nobody registered looked up in EnvPool."""
    register_env_fallback(find_envpool_env, envpool_names)


def main(argv: Sequence[str] | None = None) -> int:
    """Train.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if the run ended well.
    """
    from sample_profiler.cli.train import train

    register_envpool_envs()
    return train(argv, extra_parts=(EnvPoolOptions,), defaults=ENVPOOL_DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
