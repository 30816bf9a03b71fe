"""Train on a vector that costs nothing: `python -m benchmarks.measuring.runs.idle_vector_run lists|arrays|tensors …`.

It has 4,096 members, and the settings of Isaac Gym's Ant. As `lists` its members step one by one, as `arrays` all at
once, as `tensors` in trajectories that are tensors, too.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["WAYS", "main"]

WAYS = ("lists", "arrays", "tensors")
_NUM_MEMBERS = 4096
_EPISODE_STEPS = 200


def make_vector(way: str) -> Any:
    """Return the vector, whose arrays are tensors if that is the way."""
    from benchmarks.vectors.vector_cost import Idle

    if way != "tensors":
        return Idle(_NUM_MEMBERS, _EPISODE_STEPS)
    import torch

    return Idle(_NUM_MEMBERS, _EPISODE_STEPS, torch.from_numpy)


def main() -> int:
    """Train."""
    from sample_profiler import train
    from sample_profiler.envs import register_env
    from sample_profiler.envs.agents import AgentsEnv
    from sf_examples.isaacgym_examples.isaacgym_tasks import isaacgym_defaults

    way, *flags = sys.argv[1:]
    register_env("idle", lambda *_, **__: make_vector(way))
    if way == "lists":
        # One process: all components see it.
        AgentsEnv.offers_arrays = False  # type: ignore[assignment, method-assign]
    return train(["--env=idle", *flags], defaults=isaacgym_defaults(["--env=Ant"]))


if __name__ == "__main__":
    sys.exit(main())
