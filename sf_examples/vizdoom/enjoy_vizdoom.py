"""Plays a policy trained on ViZDoom.

``python -m sf_examples.vizdoom.enjoy_vizdoom --env=doom_basic --experiment=my_run --save_video``
"""

from __future__ import annotations

import sys
from dataclasses import replace

from sf_examples.vizdoom.doom_options import VIZDOOM_DEFAULTS
from sf_examples.vizdoom.train_vizdoom import FAMILY

__all__ = ["PLAYING_DEFAULTS", "main"]

PLAYING_DEFAULTS = VIZDOOM_DEFAULTS | {"eval_env_frameskip": 1}
"""As in training; but a picture of every tic is smooth, while each action is held for as many as in training."""

main = replace(FAMILY, defaults=PLAYING_DEFAULTS).enjoy

if __name__ == "__main__":
    sys.exit(main())
