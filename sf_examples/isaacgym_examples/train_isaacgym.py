"""Trains on one of Isaac Gym's tasks: ``python -m sf_examples.isaacgym_examples.train_isaacgym --env=Ant``.

Isaac Gym itself has not been made for any Python since 3.8. So its bodies are simulated by MuJoCo's MJX, through Brax:
thousands of environments in one vector and one process, which any profiler of Python sees all of. They observe and are
paid as Brax has it, so returns are not those of Isaac Gym.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler.config import given_values
from sample_profiler.envs import register_env
from sf_examples.brax.brax_options import DeviceOptions
from sf_examples.isaacgym_examples.isaacgym_tasks import (
    ISAACGYM_TASKS,
    IsaacGymOptions,
    defaults_of,
    make_isaacgym_env,
)

__all__ = ["main", "register_isaacgym_tasks"]


def register_isaacgym_tasks() -> None:
    """Register every task of the family."""
    for name in ISAACGYM_TASKS:
        register_env(name, make_isaacgym_env)


def main(argv: Sequence[str] | None = None) -> int:
    """Train.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if the run ended well.
    """
    from sample_profiler.cli.train import train

    register_isaacgym_tasks()
    task = given_values(sys.argv[1:] if argv is None else argv).get("env")
    return train(argv, extra_parts=(IsaacGymOptions, DeviceOptions), defaults=defaults_of(task))


if __name__ == "__main__":
    sys.exit(main())
