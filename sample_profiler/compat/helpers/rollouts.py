"""Owns small arithmetic around steps and trajectories. Imports no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    *("make_dones", "num_agents_per_worker", "samples_per_trajectory", "total_num_agents", "total_num_envs"),
    *("trajectories_per_minibatch", "trajectories_per_training_iteration"),
]


def make_dones(terminated: Any, truncated: Any) -> Any:
    """Return where an episode is over, in the form in which it is told."""
    if isinstance(terminated, Sequence):
        return [ends | cut for ends, cut in zip(terminated, truncated, strict=True)]
    return terminated | truncated


def samples_per_trajectory(trajectory: Any) -> int:
    """Return the number of steps in trajectories, whose `rewards` are `[trajectories, steps]`."""
    num_trajectories, num_steps = trajectory["rewards"].shape[:2]
    return int(num_trajectories * num_steps)


def trajectories_per_minibatch(cfg: Any) -> int:
    """Return how many trajectories a minibatch is made of."""
    return int(cfg.batch_size // cfg.rollout)


def trajectories_per_training_iteration(cfg: Any) -> int:
    """Return how many trajectories are trained on at once."""
    return int(cfg.num_batches_per_epoch * trajectories_per_minibatch(cfg))


def total_num_envs(cfg: Any) -> int:
    """Return the number of environments of a run."""
    return int(cfg.num_workers * cfg.num_envs_per_worker)


def total_num_agents(cfg: Any, env_info: Any) -> int:
    """Return the number of agents of a run."""
    return int(total_num_envs(cfg) * env_info.num_agents)


def num_agents_per_worker(cfg: Any, env_info: Any) -> int:
    """Return the number of agents of a worker."""
    return int(cfg.num_envs_per_worker * env_info.num_agents)
