"""Plays a policy trained on MuJoCo.

``python -m sf_examples.mujoco.enjoy_mujoco --env=mujoco_ant --experiment=my_run --save_video``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler import enjoy
from sf_examples.mujoco.mujoco_env import MUJOCO_DEFAULTS
from sf_examples.mujoco.train_mujoco import register_mujoco_envs

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Play.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if all episodes were played.
    """
    register_mujoco_envs()
    return enjoy(argv, defaults=MUJOCO_DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
