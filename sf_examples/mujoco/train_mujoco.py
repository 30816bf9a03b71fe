"""Trains on a MuJoCo environment: ``python -m sf_examples.mujoco.train_mujoco --env=mujoco_ant``.

Rollout workers import this module again, so importing it brings in neither PyTorch nor MuJoCo.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler.envs import register_env
from sf_examples.mujoco.mujoco_env import MUJOCO_DEFAULTS, MUJOCO_ENVS, make_mujoco_env

__all__ = ["main", "register_mujoco_envs"]


def register_mujoco_envs() -> None:
    """Register every environment of the family."""
    for name in MUJOCO_ENVS:
        register_env(name, make_mujoco_env)


def main(argv: Sequence[str] | None = None) -> int:
    """Train.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if the run ended well.
    """
    from sample_profiler.cli.train import train

    register_mujoco_envs()
    return train(argv, defaults=MUJOCO_DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
