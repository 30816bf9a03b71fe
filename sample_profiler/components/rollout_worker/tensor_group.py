"""A group whose only environment is a vector with tensors: its members step where these are, and no step waits for it.

Whether anything has ended, or is not finite, is computed on the device for all members, and looked at once a rollout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sample_profiler.components.rollout_worker.rollout_figures import RolloutFigures
from sample_profiler.components.rollout_worker.vector_group import VectorGroup
from sample_profiler.envs.attribution import checks_contract_on_error
from sample_profiler.envs.vectors.tensor_step import TensorStep, as_tensor
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.storage.device_arrays import as_index
from sample_profiler.storage.trajectories import address_of
from sample_profiler.vocabulary import FOR_DEVICE, WAIT

__all__ = ["TensorGroup"]

Tensors = dict[str, Tensor]


@dataclass
class _Members:
    """Where N members are, `[N]` bool each; a `SteppingGroup` has most of this as arrays, or sets of rows.

    Attributes:
        inactive: they have no part in the next step.
        to_begin: their episode has ended, and they begin the next one with the first step that they have a part in.
        spoiled: what they observe next had to be replaced.
        is_fresh: what they see next is the first of an episode that waits for the next rollout.
    """

    inactive: Tensor
    to_begin: Tensor
    spoiled: Tensor
    is_fresh: Tensor


class TensorGroup(VectorGroup):
    """Members of one vector as rows of a group, in trajectories that live on its device.

    Arguments are those of a `SteppingGroup`; the vector has been asked for its device. What is trained on is what its
    base makes of the same members, to the last bit. Most of the time of a step goes into calls for the device, so there
    are none that are not needed: for members that have no part in a step, only once there are such.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        device = self._trajectories.device
        assert device is not None
        self._device = device
        self.is_on_device = device.type != "cpu"
        self._members = self._place(*[self._counted.inactive] * 4)
        self._has_absent = False  # there have been members without a part in a step
        ranges = self._envs[0].ranges
        self._ranges = {
            key: (as_tensor(first, device), as_tensor(last, device)) for key, (first, last) in ranges.items()
        }
        self._is_out_of_range = {key: torch.zeros((), dtype=torch.bool, device=device) for key in self._ranges}
        self._figures = RolloutFigures(self._counted.returns, self._counted.lengths)
        self._fresh_observations: Tensors = {}

    @profile_range("SteppingGroup.reset")
    @checks_contract_on_error
    def reset(self, num_random_steps: int, after_each: Callable[[], None] = lambda: None) -> None:  # noqa: ARG002
        """Begin an episode everywhere, as the base does."""
        observations, inactive = self._envs[0].reset_tensors()
        rows = np.arange(self._num_agents)
        on_host = {key: values.cpu().numpy().copy() for key, values in observations.items()}
        first = self._mended_rows(rows, on_host)
        self._counted.inactive[:] = inactive
        self._counted.begin(rows)
        spoiled, is_late = np.isin(rows, self._spoiled_rows), self._counted.inactive
        self._has_absent = bool(is_late.any())
        self._figures.is_late[:] = is_late
        self._members = self._place(is_late, is_late, spoiled, np.ones_like(spoiled))
        self._fresh_observations = {key: as_tensor(values, self._device) for key, values in first.items()}
        after_each()

    @profile_range("SteppingGroup.begin_rollout")
    @checks_contract_on_error
    def begin_rollout(self, slots: npt.NDArray[np.int32]) -> None:
        """Continue in new slots, as the base does."""
        memory: Any = self._trajectories
        last = memory.layout.rollout
        old, new = self._where, self._address(slots)
        is_fresh = self._members.is_fresh
        for key, array in memory.observations.items():
            behind = array[old, last]
            array[new, 0] = _where(is_fresh, self._fresh_observations.get(key, behind), behind)
        states = memory.states[old, last]
        memory.states[new, 0] = states.masked_fill(is_fresh[:, None], 0.0)
        memory.starts_episode[new, 0] = False
        is_fresh.zero_()
        self.slots, self._where = slots, new
        self.step_index = 0
        memory.row_slot[self._rows] = slots

    @profile_range("SteppingGroup.step")
    @checks_contract_on_error
    def step(self) -> None:
        """Step all members with the actions that are there for the current step."""
        begin_ns = perf_counter_ns()
        actions: Any = self._trajectories.actions[self._where, self.step_index]
        step = self._envs[0].step_tensors(actions)
        self._count_step(0, perf_counter_ns() - begin_ns)
        with self._timing.add_time("write", device=True):
            self._write(step)
        self.step_index += 1
        self._note_step_time(perf_counter_ns() - begin_ns)
        if self.step_index == self._trajectories.layout.rollout:
            with self._timing.add_time(WAIT + FOR_DEVICE if self.is_on_device else "read_figures"):
                self._tell()

    @torch.no_grad()
    def _write(self, step: TensorStep) -> None:
        """Write what followed a step: before the next episodes begin, and where they have begun."""
        memory: Any = self._trajectories
        members, now, where = self._members, self.step_index, self._where
        behind, ended = now + 1, step.terminated | step.truncated
        seen, final, are_bad, are_seen_bad = self._read_observations(step, ended)
        is_finite = torch.isfinite(step.rewards.float())  # as networks have them
        left_out = members.spoiled | are_bad | ~is_finite
        memory.spoiled[where, now] = left_out & ~members.inactive if self._has_absent else left_out
        memory.inactive[where, now] = left_out | members.inactive if self._has_absent else left_out
        memory.rewards[where, now] = torch.where(is_finite, step.rewards, 0)
        memory.terminated[where, now] = step.terminated
        memory.truncated[where, now] = step.truncated
        members.spoiled = are_bad | (are_seen_bad & ended)
        self._figures.note(step)

        states = memory.states[where, behind]
        begins = ended
        if (inactive := self._find_inactive(step)) is not None:
            begins_late = members.to_begin & ~inactive
            states = states.masked_fill(begins_late[:, None], 0.0)
            members.to_begin = torch.where(ended, inactive, members.to_begin & inactive)
            members.inactive = inactive
            begins = ended | begins_late
        memory.final_states[where, now] = states
        for key, finals in memory.final_observations.items():
            finals[where, now] = final[key]
        if behind == memory.layout.rollout:
            # o_T and h_T stay those of the episode that ended: the Learner bootstraps from them.
            self._fresh_observations, members.is_fresh = seen, ended
            memory.states[where, behind] = states
        else:
            final = seen
            memory.starts_episode[where, behind] = begins
            memory.states[where, behind] = states.masked_fill(ended[:, None], 0.0)
        for key, array in memory.observations.items():
            array[where, behind] = final[key]

    def _find_inactive(self, step: TensorStep) -> Tensor | None:
        """Return who has no part in the next step; None: nobody, as in all others so far."""
        inactive = step.inactive()
        self._has_absent |= inactive is not None
        if inactive is None and self._has_absent:
            return torch.zeros_like(step.terminated)
        return inactive

    def _read_observations(self, step: TensorStep, ended: Tensor) -> tuple[Tensors, Tensors, Tensor, Tensor]:
        """Return what members see next, what ended episodes led to instead, and whose numbers are not finite in either.

        Where a vector shows the next episode and does not tell what an episode led to, it is the observation before,
        which the slot has.
        """
        seen, are_seen_bad = self._mended_tensors(self._envs[0].as_tensors(step.observations), ended)
        if not step.shows_next:
            return seen, seen, are_seen_bad, are_seen_bad
        told, is_told = step.final_observations()
        where, now = self._where, self.step_index
        slot: dict[str, Any] = self._trajectories.observations
        if told is None:
            final, are_bad = {key: array[where, now] for key, array in slot.items()}, torch.zeros_like(ended)
        else:
            final, are_bad = self._mended_tensors(self._envs[0].as_tensors(told), ended)
            if is_told is not None:
                final = {key: _where(is_told, final[key], array[where, now]) for key, array in slot.items()}
        final = {key: _where(ended, values, seen[key]) for key, values in final.items()}
        return seen, final, torch.where(ended, are_bad, are_seen_bad), are_seen_bad

    def _mended_tensors(self, observations: Tensors, ended: Tensor) -> tuple[Tensors, Tensor]:
        """Return observations with numbers in the place of what no network can take, and whose are not finite."""
        mended = dict(observations)
        are_bad: Tensor | None = None
        for key, (first, last) in self._ranges.items():
            mended[key] = observations[key].clamp(first, last)
            self._is_out_of_range[key] |= (mended[key] != observations[key]).any()
        for key in self._float_keys:
            values = observations[key]
            is_good = torch.isfinite(values.float())
            mended[key] = torch.where(is_good, values, 0)
            is_bad = ~is_good.reshape(len(values), -1).all(1)
            are_bad = is_bad if are_bad is None else are_bad | is_bad
        return mended, torch.zeros_like(ended) if are_bad is None else are_bad

    def _tell(self) -> None:
        """Note the episodes that ended in the rollout, and report what was not finite; this waits for the device."""
        episodes = self._figures.read(self._trajectories, self._where, self._members.inactive)
        for row, episode_return, length, info in episodes:
            self._tell_of_episode(0, row, info, episode_return, length)
        for row, step in zip(*np.nonzero(self._figures.spoiled), strict=True):
            what = "a reward or observation that is not finite"
            self._bad_numbers.report(self._first_env, int(row), what, f"step {step} of a rollout")
        for key, is_out_of_range in self._is_out_of_range.items():
            if is_out_of_range:
                self._envs[0].refuse(f"step() returned observation {key!r} out of its space")

    def course(self) -> dict[str, Any]:
        """Return where the group is, without its environments and trajectories, as data for `follow`."""
        members = {each.name: getattr(self._members, each.name).cpu().numpy() for each in fields(self._members)}
        fresh = np.flatnonzero(members["is_fresh"])
        observations = {key: values.cpu().numpy()[fresh] for key, values in self._fresh_observations.items()}
        return super().course() | {
            "fresh": [(fresh, observations)] if len(fresh) else [],
            "inactive": members["inactive"].copy(),
            "to_begin": np.flatnonzero(members["to_begin"]).tolist(),
            "spoiled_rows": np.flatnonzero(members["spoiled"]).tolist(),
            "figures": self._figures.course(),
        }

    def follow(self, course: dict[str, Any]) -> None:
        """Go on from a course instead of a reset."""
        super().follow(course)
        self._where = self._address(self.slots)
        rows, fresh = np.arange(self._num_agents), course["fresh"]
        to_begin, spoiled = (np.isin(rows, course[name]) for name in ("to_begin", "spoiled_rows"))
        is_fresh = np.isin(rows, fresh[0][0]) if fresh else np.zeros_like(spoiled)
        self._members = self._place(self._counted.inactive, to_begin, spoiled, is_fresh)
        self._has_absent = True
        self._fresh_observations = {}
        for key, values in (fresh[0][1] if fresh else {}).items():
            whole = np.zeros((self._num_agents, *values.shape[1:]), values.dtype)
            whole[is_fresh] = values
            self._fresh_observations[key] = as_tensor(whole, self._device)
        self._figures = RolloutFigures(self._counted.returns, self._counted.lengths)
        self._figures.follow(course["figures"])

    def _place(self, *arrays: npt.NDArray[Any]) -> _Members:
        return _Members(*(as_tensor(array.copy(), self._device).clone() for array in arrays))

    def _address(self, slots: npt.NDArray[np.int32]) -> Any:
        address = address_of(slots)
        return address if isinstance(address, slice) else as_index(address, self._device)


def _where(rows: Tensor, values: Tensor, others: Tensor) -> Tensor:
    """Return values of these rows `[N]`, and of others the others, `[N, ...]`."""
    return torch.where(rows.view(-1, *[1] * (others.ndim - 1)), values, others)
