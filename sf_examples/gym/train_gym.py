"""Trains on any environment of gymnasium: ``python -m sf_examples.gym.train_gym --env=CartPole-v1``.

Rollout workers import this module again, so importing it brings in neither PyTorch nor an environment.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler.envs.gymnasium_ids import gym_defaults, register_gym_envs

__all__ = ["main", "register_gym_envs"]


def main(argv: Sequence[str] | None = None) -> int:
    """Train.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if the run ended well.
    """
    from sample_profiler.cli.train import train

    register_gym_envs()
    return train(argv, defaults=gym_defaults(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(main())
