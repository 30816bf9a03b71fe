"""Trains on an Atari game: ``python -m sf_examples.atari.train_atari --env=atari_pong``.

Rollout workers import this module again, so importing it brings in neither PyTorch nor the emulator.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler.envs import register_env
from sf_examples.atari.atari_env import ATARI_DEFAULTS, ATARI_ENVS, make_atari_env

__all__ = ["main", "register_atari_envs"]


def register_atari_envs() -> None:
    """Register every game of the family."""
    for name in ATARI_ENVS:
        register_env(name, make_atari_env)


def main(argv: Sequence[str] | None = None) -> int:
    """Train.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if the run ended well.
    """
    from sample_profiler.cli.train import train

    register_atari_envs()
    return train(argv, defaults=ATARI_DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
