"""Plays a policy trained on an Atari game.

``python -m sf_examples.atari.enjoy_atari --env=atari_pong --experiment=my_run --save_video``
"""

from __future__ import annotations

import sys

from sf_examples.atari.train_atari import FAMILY

__all__ = ["main"]

main = FAMILY.enjoy

if __name__ == "__main__":
    sys.exit(main())
