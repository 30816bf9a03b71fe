"""Owns the Learner's view of the trajectories that it trains on: small arrays at once, observations piece by piece.

A *chunk* is `recurrence` consecutive steps of a trajectory: the length over which gradients flow through time. Chunk c
of a dataset belongs to trajectory c // (T / recurrence).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sample_profiler.profiling.ranges import profile_range
from sample_profiler.storage.trajectories import Trajectories

__all__ = ["Dataset", "copy_last"]

Last = tuple[dict[str, torch.Tensor], torch.Tensor]


def copy_last(trajectories: Trajectories, slots: Sequence[int] | npt.NDArray[Any], device: torch.device) -> Last:
    """Return what follows the last step of S slots: observations by key `[S, ...]` and recurrent states `[S, H]`."""
    behind, index = trajectories.layout.rollout, np.asarray(slots)
    observations = {key: _tensor(array[index, behind], device) for key, array in trajectories.observations.items()}
    return observations, _tensor(trajectories.states[index, behind], device)


def _tensor(array: npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(array).to(device, non_blocking=True)


class Dataset:
    """The trajectories of some slots.

    Args:
        trajectories: the memory.
        slots: which of it, S of them.
        recurrence: R, steps in a chunk; divides the rollout length T.
        device: where tensors are wanted.

    Attributes:
        recurrence: R.
        num_chunks: S * T / R.
        rewards, terminated, truncated, inactive, values, final_values, log_probabilities, policy_versions: `[S, T]`.
        absent: `[S, T]` bool: the agent had no part in the step; else it is inactive because of its numbers.
        actions: `[S, T, action_width]`; action_parameters: `[S, T, num_action_parameters]`.
        starts_episode: `[S, T]` bool: the step was entered with a state of zeros, as the first of an episode;
            False at the first step of a trajectory, whose state is stored.
    """

    @profile_range("Dataset.copy_steps")
    def __init__(self, trajectories: Trajectories, slots: Sequence[int], recurrence: int, device: torch.device) -> None:
        self._memory = memory = trajectories
        self._slots = index = np.asarray(slots)
        self._rollout = memory.layout.rollout
        self.recurrence = self._recurrence = recurrence
        self._device = device
        self._chunks_per_trajectory = self._rollout // recurrence
        self.num_chunks = len(index) * self._chunks_per_trajectory
        self.rewards = self._tensor(memory.rewards[index])
        self.terminated = self._tensor(memory.terminated[index])
        self.truncated = self._tensor(memory.truncated[index])
        self.inactive = self._tensor(memory.inactive[index])
        self.absent = self._tensor(memory.inactive[index] & ~memory.spoiled[index])
        self.values = self._tensor(memory.values[index])
        self.final_values = self._tensor(memory.final_values[index])
        self.log_probabilities = self._tensor(memory.log_probabilities[index])
        self.policy_versions = self._tensor(memory.policy_versions[index])
        self.actions = self._tensor(memory.actions[index])
        self.action_parameters = self._tensor(memory.action_parameters[index])
        self.starts_episode = self._tensor(memory.starts_episode[index])

    def is_valid(self, version: int, max_policy_lag: int) -> torch.Tensor:
        """Tell which steps are to be trained on, `[S, T]` bool: those of recent weights in which the agent had a part.

        Args:
            version: of the newest weights.
            max_policy_lag: steps with older weights than that many versions are not valid.
        """
        return self._is_recent(version, max_policy_lag) & ~self.inactive

    def num_spoiled(self, version: int, max_policy_lag: int) -> int:
        """Count the steps that would be valid if their numbers were finite; arguments as of `is_valid`."""
        spoiled = self._tensor(self._memory.spoiled[self._slots])
        return int((self._is_recent(version, max_policy_lag) & spoiled).sum())

    def _is_recent(self, version: int, max_policy_lag: int) -> torch.Tensor:
        return version - self.policy_versions <= max_policy_lag

    def last(self) -> Last:
        """Return what follows the last step: observations by key `[S, ...]` and recurrent states `[S, H]`."""
        return copy_last(self._memory, self._slots, self._device)

    @profile_range("Dataset.copy_observations")
    def observations(self, chunks: npt.NDArray[np.int64]) -> dict[str, torch.Tensor]:
        """Copy the observations of some chunks out of the shared memory, by key `[num_chunks * R, ...]`."""
        slots, first = self._locate(chunks)
        steps = first[:, None] + np.arange(self._recurrence)
        gathered: dict[str, torch.Tensor] = {}
        for key, array in self._memory.observations.items():
            values: npt.NDArray[Any] = array[slots[:, None], steps]
            gathered[key] = self._tensor(values).flatten(0, 1)
        return gathered

    @property
    def observation_size(self) -> int:
        """How many numbers an observation is."""
        return max(1, sum(math.prod(array.shape[2:]) for array in self._memory.observations.values()))

    def observation_bytes(self, trajectory: int, step: int) -> bytes:
        """Return one observation, of all keys together, to be told from others."""
        slot = self._slots[trajectory]
        return b"".join(array[slot, step].tobytes() for array in self._memory.observations.values())

    @profile_range("Dataset.copy_states")
    def states(self, chunks: npt.NDArray[np.int64]) -> torch.Tensor:
        """Return the recurrent states with which some chunks begin, `[num_chunks, H]`."""
        slots, first = self._locate(chunks)
        return self._tensor(self._memory.states[slots, first])

    def by_chunk(self, values: torch.Tensor) -> torch.Tensor:
        """Cut `[S, T, ...]` into `[num_chunks, R, ...]`."""
        return values.reshape(self.num_chunks, self._recurrence, *values.shape[2:])

    def _tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        return _tensor(array, self._device)

    def _locate(self, chunks: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        trajectory, chunk = np.divmod(chunks, self._chunks_per_trajectory)
        return self._slots[trajectory], chunk * self._recurrence
