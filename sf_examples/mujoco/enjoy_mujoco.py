"""Plays a policy trained on MuJoCo.

``python -m sf_examples.mujoco.enjoy_mujoco --env=mujoco_ant --experiment=my_run --save_video``
"""

from __future__ import annotations

import sys

from sf_examples.mujoco.train_mujoco import FAMILY

__all__ = ["main"]

main = FAMILY.enjoy

if __name__ == "__main__":
    sys.exit(main())
