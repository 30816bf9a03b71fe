"""Owns the form in which a Collector hands trajectories over: tensors of their own, whatever becomes of the slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sample_profiler.storage.dataset import Dataset
from sample_profiler.storage.trajectories import Trajectories

__all__ = ["Batch", "copy_trajectories"]

Batch = dict[str, Any]
"""Tensors by name; `observations` and `last_observations` have tensors by key of the observation space."""


def copy_trajectories(
    trajectories: Trajectories, slots: Sequence[int], slot_worker: Sequence[int], max_policy_lag: int, version: int
) -> Batch:
    """Copy finished trajectories out of the memory that they were sampled into.

    Args:
        trajectories: the memory.
        slots: which of it, S of them, each with T steps.
        slot_worker: the worker of each slot there is.
        max_policy_lag: steps with older weights are not valid.
        version: of the newest weights.
    """
    num_steps = trajectories.layout.rollout
    # Whole trajectories as chunks: a dataset's arrays are copies already, made without a detour.
    dataset = Dataset(trajectories, slots, num_steps, torch.device("cpu"))
    observations = dataset.observations(np.arange(len(slots)))
    last_observations, last_states = dataset.last()
    return {
        "observations": {
            key: values.view(len(slots), num_steps, *values.shape[1:]) for key, values in observations.items()
        },
        "states": dataset.all_states(),
        "actions": dataset.actions,
        "action_parameters": dataset.action_parameters,
        "log_probabilities": dataset.log_probabilities,
        "values": dataset.values,
        "rewards": dataset.rewards,
        "terminated": dataset.terminated,
        "truncated": dataset.truncated,
        "final_values": dataset.final_values,
        "starts_episode": dataset.starts_episode,
        "policy_versions": dataset.policy_versions,
        "valid": dataset.is_valid(version, max_policy_lag),
        "last_observations": last_observations,
        "last_states": last_states,
        "workers": torch.tensor([slot_worker[slot] for slot in slots]),
    }
