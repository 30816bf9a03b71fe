"""Defaults of small environments that are stepped as one vector, in one process with all else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sample_profiler.config import given_values
from sample_profiler.envs.gymnasium_ids import GYM_DEFAULTS

__all__ = ["TASK_DEFAULTS", "VECTOR_DEFAULTS", "vector_defaults"]

VECTOR_DEFAULTS = {key: value for key, value in GYM_DEFAULTS.items() if key != "num_envs_per_worker"} | {
    "batched_sampling": True,
    "num_envs_per_worker": 1,
    "num_workers": 1,
    "rollout": 32,
    "serial_mode": True,
    "worker_num_splits": 1,
}
"""What such families have instead of the flags' own defaults. Sampling and training take turns in any case."""

TASK_DEFAULTS: dict[str, dict[str, Any]] = {"CartPole": {"exploration_loss_coeff": 0.0, "max_grad_norm": 0.5}}
"""What some environments have instead of that, by id without version: as they were found to be learned soonest."""


def vector_defaults(argv: Sequence[str]) -> dict[str, Any]:
    """Return what a command line has instead of the flags' own defaults.

    Args:
        argv: The command line without the program's name.
    """
    task = given_values(argv).get("env", "").rpartition("-v")[0]
    return VECTOR_DEFAULTS | TASK_DEFAULTS.get(task, {})
