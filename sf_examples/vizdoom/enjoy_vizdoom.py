"""Plays a policy trained on ViZDoom.

``python -m sf_examples.vizdoom.enjoy_vizdoom --env=doom_basic --experiment=my_run --save_video``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler import enjoy
from sf_examples.vizdoom.doom_options import VIZDOOM_DEFAULTS, VizdoomOptions
from sf_examples.vizdoom.train_vizdoom import register_vizdoom_envs

__all__ = ["PLAYING_DEFAULTS", "main"]

PLAYING_DEFAULTS = VIZDOOM_DEFAULTS | {"eval_env_frameskip": 1}
"""As in training; but a picture of every tic is smooth, while each action is held for as many as in training."""


def main(argv: Sequence[str] | None = None) -> int:
    """Play.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if all episodes were played.
    """
    register_vizdoom_envs()
    return enjoy(argv, extra_parts=(VizdoomOptions,), defaults=PLAYING_DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
