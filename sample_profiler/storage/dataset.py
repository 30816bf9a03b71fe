"""Owns the Learner's view of the trajectories that it trains on: small arrays at once, observations piece by piece.

A *chunk* is `recurrence` consecutive steps of a trajectory: the length over which gradients flow through time. Chunk c
of a dataset belongs to trajectory c // (T / recurrence).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sample_profiler.profiling.ranges import profile_range
from sample_profiler.storage.device_arrays import as_index, move
from sample_profiler.storage.trajectories import Trajectories, address_of

__all__ = ["Dataset", "Outline", "copy_last"]

Last = tuple[dict[str, torch.Tensor], torch.Tensor]


def copy_last(trajectories: Trajectories, slots: Sequence[int] | npt.NDArray[Any], device: torch.device) -> Last:
    """Return what follows the last step of S slots: observations by key `[S, ...]` and recurrent states `[S, H]`."""
    memory, behind = _Memory(trajectories, device), trajectories.layout.rollout
    place = memory.address(np.asarray(slots)), behind
    observations = {key: memory.copy(array, place) for key, array in trajectories.observations.items()}
    return observations, memory.copy(trajectories.states, place)


@dataclass(frozen=True)
class Outline:
    """What the host wants to know of a dataset; read in one piece, since each look at a device waits for it.

    Attributes:
        lag_sum, lag_min, lag_max: of all steps, in versions of the weights that came since their action was drawn.
        num_too_old: steps that are too old to be trained on.
        reward_mean: of all steps.
        has_inactive, has_absent: there are steps in which the agent had no part, for whatever reason, or none at all.
        has_cut: there are episodes that were cut off before the last step of their trajectory.
    """

    lag_sum: float
    lag_min: float
    lag_max: float
    num_too_old: float
    reward_mean: float
    has_inactive: bool
    has_absent: bool
    has_cut: bool


class _Memory:
    """Reads trajectories, wherever they are.

    Args:
        trajectories: the memory.
        device: where tensors are wanted.
    """

    def __init__(self, trajectories: Trajectories, device: torch.device) -> None:
        self._lives_on = trajectories.device
        self._device = device

    def address(self, slots: npt.NDArray[Any]) -> Any:
        """Return what addresses slots where they are: there, neighbours in one piece."""
        address = slots if self._lives_on is None else address_of(slots)
        return address if isinstance(address, slice) else self.index(slots)

    def index(self, indices: npt.NDArray[Any]) -> Any:
        """Return indices as what they address takes them."""
        return indices if self._lives_on is None else as_index(indices, self._lives_on)

    def numbers(self, numbers: npt.NDArray[Any]) -> Any:
        """Return numbers as an index; nothing is sent where each is the one behind the one before."""
        address = numbers if self._lives_on is None else address_of(numbers)
        if isinstance(address, slice):
            return torch.arange(address.start, address.stop, device=self._lives_on)
        return self.index(numbers)

    def copy(self, array: Any, place: Any) -> torch.Tensor:
        """Return a copy of what is in a place."""
        values = array[place]
        if self._lives_on is None:
            return move(torch.from_numpy(values), self._device)
        return values.clone() if values._is_view() and self._lives_on == self._device else move(values, self._device)


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
        self._read = read = _Memory(trajectories, device)
        self._slots = np.asarray(slots)
        self._rollout = memory.layout.rollout
        self.recurrence = self._recurrence = recurrence
        self._device = device
        self._chunks_per_trajectory = self._rollout // recurrence
        self.num_chunks = len(self._slots) * self._chunks_per_trajectory
        self._slot_index = read.index(self._slots)
        self._offsets = read.numbers(np.arange(recurrence))
        place = read.address(self._slots)
        self.rewards = read.copy(memory.rewards, place)
        self.terminated = read.copy(memory.terminated, place)
        self.truncated = read.copy(memory.truncated, place)
        self.inactive = read.copy(memory.inactive, place)
        self.absent = self.inactive & ~read.copy(memory.spoiled, place)
        self.values = read.copy(memory.values, place)
        self.final_values = read.copy(memory.final_values, place)
        self.log_probabilities = read.copy(memory.log_probabilities, place)
        self.policy_versions = read.copy(memory.policy_versions, place)
        self.actions = read.copy(memory.actions, place)
        self.action_parameters = read.copy(memory.action_parameters, place)
        self.starts_episode = read.copy(memory.starts_episode, place)

    def look(self, version: int, max_policy_lag: int) -> Outline:
        """Return what the host wants to know of it; arguments as of `is_valid`."""
        lag = version - self.policy_versions
        flags = [each.any() for each in (self.inactive, self.absent, self.is_cut()[:, :-1])]
        numbers = [lag.sum(), lag.min(), lag.max(), (lag > max_policy_lag).sum(), self.rewards.mean()]
        read = torch.stack([each.double() for each in (*numbers, *flags)]).tolist()
        lag_sum, lag_min, lag_max, num_too_old, reward_mean, *has = read
        has_inactive, has_absent, has_cut = map(bool, has)
        return Outline(lag_sum, lag_min, lag_max, num_too_old, reward_mean, has_inactive, has_absent, has_cut)

    def is_cut(self) -> torch.Tensor:
        """Tell which steps ended an episode that was only cut off, `[S, T]` bool."""
        return self.truncated & ~self.terminated

    def is_valid(self, version: int, max_policy_lag: int) -> torch.Tensor:
        """Tell which steps are to be trained on, `[S, T]` bool: those of recent weights in which the agent had a part.

        Args:
            version: of the newest weights.
            max_policy_lag: steps with older weights than that many versions are not valid.
        """
        return self._is_recent(version, max_policy_lag) & ~self.inactive

    def num_spoiled(self, version: int, max_policy_lag: int) -> int:
        """Count the steps that would be valid if their numbers were finite; arguments as of `is_valid`."""
        spoiled = self._read.copy(self._memory.spoiled, self._read.address(self._slots))
        return int((self._is_recent(version, max_policy_lag) & spoiled).sum())

    def _is_recent(self, version: int, max_policy_lag: int) -> torch.Tensor:
        return version - self.policy_versions <= max_policy_lag

    def last(self) -> Last:
        """Return what follows the last step: observations by key `[S, ...]` and recurrent states `[S, H]`."""
        return copy_last(self._memory, self._slots, self._device)

    @property
    def keeps_finals(self) -> bool:
        """Whether what follows steps that cut an episode off is kept: nobody has computed its value yet."""
        return self._memory.device is not None

    def finals(self, places: tuple[torch.Tensor, torch.Tensor]) -> Last:
        """Return what was kept behind some steps, of K: observations by key `[K, ...]` and recurrent states `[K, H]`.

        Args:
            places: `[K]` each: trajectory in the dataset, and step.
        """
        memory, (trajectories, steps) = self._memory, places
        assert memory.device is not None
        place = self._slot_index[move(trajectories, memory.device)], move(steps, memory.device)
        observations = {key: self._read.copy(array, place) for key, array in memory.final_observations.items()}
        return observations, self._read.copy(memory.final_states, place)

    @profile_range("Dataset.copy_observations")
    def observations(self, chunks: npt.NDArray[np.int64]) -> dict[str, torch.Tensor]:
        """Copy the observations of some chunks out of the shared memory, by key `[num_chunks * R, ...]`."""
        slots, first = self._locate(chunks)
        place = slots[:, None], first[:, None] + self._offsets
        return {key: self._read.copy(array, place).flatten(0, 1) for key, array in self._memory.observations.items()}

    @property
    def observation_size(self) -> int:
        """How many numbers an observation is."""
        return max(1, sum(math.prod(array.shape[2:]) for array in self._memory.observations.values()))

    def observation_bytes(self, trajectories: npt.NDArray[np.int64], steps: npt.NDArray[np.int64]) -> list[bytes]:
        """Return the observations of some steps, each of all keys together, to be told from others."""
        place = self._read.index(self._slots[trajectories]), self._read.index(steps)
        read = [array[place] for array in self._memory.observations.values()]
        rows = [values.cpu().numpy() if isinstance(values, torch.Tensor) else values for values in read]
        return [b"".join(values[row].tobytes() for values in rows) for row in range(len(steps))]

    @profile_range("Dataset.copy_states")
    def states(self, chunks: npt.NDArray[np.int64]) -> torch.Tensor:
        """Return the recurrent states with which some chunks begin, `[num_chunks, H]`."""
        return self._read.copy(self._memory.states, self._locate(chunks))

    def all_states(self) -> torch.Tensor:
        """Return the recurrent states with which all steps were entered, `[S, T, H]`."""
        return self._read.copy(self._memory.states, (self._read.address(self._slots), slice(self._rollout)))

    def by_chunk(self, values: torch.Tensor) -> torch.Tensor:
        """Cut `[S, T, ...]` into `[num_chunks, R, ...]`."""
        return values.reshape(self.num_chunks, self._recurrence, *values.shape[2:])

    def _locate(self, chunks: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        """Return the slots and first steps of chunks, as what addresses the memory where it is."""
        numbers = self._read.numbers(chunks)
        trajectories = numbers // self._chunks_per_trajectory
        return self._slot_index[trajectories], numbers % self._chunks_per_trajectory * self._recurrence
