"""Trains on one of Isaac Gym's tasks: ``python -m sf_examples.isaacgym_examples.train_isaacgym --env=Ant``.

Isaac Gym itself has not been made for any Python since 3.8. So its bodies are simulated by MuJoCo's MJX, through Brax:
thousands of environments in one vector and one process, which any profiler of Python sees all of. They observe and are
paid as Brax has it, so returns are not those of Isaac Gym.
"""

from __future__ import annotations

import sys

from sample_profiler.envs import register_env
from sf_examples.family import Family
from sf_examples.isaacgym_examples.isaacgym_tasks import (
    ISAACGYM_TASKS,
    IsaacGymOptions,
    isaacgym_defaults,
    make_isaacgym_env,
)
from sf_examples.vectors.device_options import DeviceOptions

__all__ = ["FAMILY", "main", "register_isaacgym_tasks"]


def register_isaacgym_tasks() -> None:
    """Register every task of the family."""
    for name in ISAACGYM_TASKS:
        register_env(name, make_isaacgym_env)


FAMILY = Family(
    register=register_isaacgym_tasks, defaults=isaacgym_defaults, extra_parts=(IsaacGymOptions, DeviceOptions)
)

main = FAMILY.train

if __name__ == "__main__":
    sys.exit(main())
