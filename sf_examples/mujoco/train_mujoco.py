"""Trains on a MuJoCo environment: ``python -m sf_examples.mujoco.train_mujoco --env=mujoco_ant``.

Rollout workers import this module again, so importing it brings in neither PyTorch nor MuJoCo.
"""

from __future__ import annotations

import sys

from sample_profiler.envs import register_env
from sf_examples.family import Family
from sf_examples.mujoco.mujoco_env import MUJOCO_DEFAULTS, MUJOCO_ENVS, make_mujoco_env

__all__ = ["FAMILY", "main", "register_mujoco_envs"]


def register_mujoco_envs() -> None:
    """Register every environment of the family."""
    for name in MUJOCO_ENVS:
        register_env(name, make_mujoco_env)


FAMILY = Family(register=register_mujoco_envs, defaults=MUJOCO_DEFAULTS)

main = FAMILY.train

if __name__ == "__main__":
    sys.exit(main())
