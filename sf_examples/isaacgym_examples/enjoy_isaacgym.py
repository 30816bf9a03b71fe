"""Plays a policy trained on one of Isaac Gym's tasks; what simulates them here shows no pictures.

``python -m sf_examples.isaacgym_examples.enjoy_isaacgym --env=Ant --experiment=igeAnt --env_agents=16``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler import enjoy
from sample_profiler.config import given_values
from sf_examples.brax.brax_options import DeviceOptions
from sf_examples.isaacgym_examples.isaacgym_tasks import IsaacGymOptions, defaults_of
from sf_examples.isaacgym_examples.train_isaacgym import register_isaacgym_tasks

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Play.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if all episodes were played.
    """
    register_isaacgym_tasks()
    task = given_values(sys.argv[1:] if argv is None else argv).get("env")
    return enjoy(argv, extra_parts=(IsaacGymOptions, DeviceOptions), defaults=defaults_of(task))


if __name__ == "__main__":
    sys.exit(main())
