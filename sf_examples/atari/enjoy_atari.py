"""Plays a policy trained on an Atari game.

``python -m sf_examples.atari.enjoy_atari --env=atari_pong --experiment=my_run --save_video``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler import enjoy
from sf_examples.atari.atari_env import ATARI_DEFAULTS
from sf_examples.atari.train_atari import register_atari_envs

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Play.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if all episodes were played.
    """
    register_atari_envs()
    return enjoy(argv, defaults=ATARI_DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
