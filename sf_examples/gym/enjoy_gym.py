"""Plays a policy trained on gymnasium.

``python -m sf_examples.gym.enjoy_gym --env=CartPole-v1 --experiment=my_run --save_video``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler import enjoy
from sf_examples.gym.gym_env import GYM_DEFAULTS
from sf_examples.gym.train_gym import register_gym_envs

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Play.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if all episodes were played.
    """
    register_gym_envs()
    return enjoy(argv, defaults=GYM_DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
