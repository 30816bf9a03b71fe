"""Trains on any environment of gymnasium: ``python -m sf_examples.gym.train_gym --env=CartPole-v1``.

Rollout workers import this module again, so importing it brings in neither PyTorch nor an environment.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler.envs import register_env_fallback
from sf_examples.gym.gym_env import GYM_DEFAULTS, find_gym_env, gym_env_names

__all__ = ["main", "register_gym_envs"]


def register_gym_envs() -> None:
    """Have names that nobody registered looked up in gymnasium."""
    register_env_fallback(find_gym_env, gym_env_names)


def main(argv: Sequence[str] | None = None) -> int:
    """Train.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if the run ended well.
    """
    from sample_profiler.cli.train import train

    register_gym_envs()
    return train(argv, defaults=GYM_DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
