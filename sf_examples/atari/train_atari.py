"""Trains on an Atari game: ``python -m sf_examples.atari.train_atari --env=atari_pong``.

Rollout workers import this module again, so importing it brings in neither PyTorch nor the emulator.
"""

from __future__ import annotations

import sys

from sample_profiler.envs import register_env
from sf_examples.atari.atari_env import ATARI_DEFAULTS, ATARI_ENVS, make_atari_env
from sf_examples.family import Family

__all__ = ["FAMILY", "main", "register_atari_envs"]


def register_atari_envs() -> None:
    """Register every game of the family."""
    for name in ATARI_ENVS:
        register_env(name, make_atari_env)


FAMILY = Family(register=register_atari_envs, defaults=ATARI_DEFAULTS)

main = FAMILY.train

if __name__ == "__main__":
    sys.exit(main())
