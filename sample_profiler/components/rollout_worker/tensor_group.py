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
from sample_profiler.vocabulary import READ_FIGURES, WRITE

__all__ = ["TensorGroup"]

Tensors = dict[str, Tensor]


@dataclass
class _Members:
    """Where N members are, `[N]` each; the attributes are those that a `SteppingGroup` has as arrays or sets of rows.

    Attributes:
        returns: of their episodes so far, float64.
        lengths: of their episodes so far.
        inactive: they have no part in the next step.
        to_begin: their episode has ended, and they begin the next one with the first step that they have a part in.
        spoiled: what they observe next had to be replaced.
        is_fresh: what they see next is the first of an episode that waits for the next rollout.
    """

    returns: Tensor
    lengths: Tensor
    inactive: Tensor
    to_begin: Tensor
    spoiled: Tensor
    is_fresh: Tensor


class TensorGroup(VectorGroup):
    """Members of one vector as rows of a group, in trajectories that live on its device.

    Arguments are those of a `SteppingGroup`; the vector has been asked for its device. What is trained on is what its
    base makes of the same members, to the last bit.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        device = self._trajectories.device
        assert device is not None
        self._device = device
        self.is_on_device = device.type != "cpu"
        self._members = self._place(self._returns, self._lengths, *[self._inactive] * 4)
        self._ranges = {
            key: tuple(as_tensor(bound, device) for bound in bounds) for key, bounds in self._envs[0].ranges.items()
        }
        self._figures = RolloutFigures(
            *(self._trajectories.layout.rollout, self._num_agents, device),
            [key for key in self._trajectories.observations if key in self._float_keys or key in self._ranges],
        )
        self._fresh_observations: Tensors = {}

    @profile_range("SteppingGroup.reset")
    @checks_contract_on_error
    def reset(self, num_random_steps: int, after_each: Callable[[], None] = lambda: None) -> None:  # noqa: ARG002
        """Begin an episode everywhere, as the base does."""
        observations, inactive = self._envs[0].reset_tensors()
        rows = np.arange(self._num_agents)
        on_host = {key: values.cpu().numpy().copy() for key, values in observations.items()}
        first = self._mended_rows(rows, on_host)
        self._inactive[:] = inactive
        self._begin_counting_rows(rows)
        spoiled = np.isin(rows, self._spoiled_rows)
        is_late = self._inactive.copy()
        self._members = self._place(self._returns, self._lengths, is_late, is_late, spoiled, np.ones_like(spoiled))
        self._fresh_observations = {key: as_tensor(values, self._device) for key, values in first.items()}
        after_each()

    @profile_range("SteppingGroup.begin_rollout")
    @checks_contract_on_error
    def begin_rollout(self, slots: npt.NDArray[np.int32]) -> None:
        """Continue in new slots, as the base does."""
        memory, last = self._trajectories, self._trajectories.layout.rollout
        old, new = self._where, self._address(slots)
        is_fresh = self._members.is_fresh
        for key, array in memory.observations.items():
            behind: Any = array[old, last]
            array[new, 0] = _where(is_fresh, self._fresh_observations.get(key, behind), behind)
        states: Any = memory.states[old, last]
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
        with self._timing.add_time(WRITE, device=True):
            self._write(step)
        self.step_index += 1
        self._note_step_time(perf_counter_ns() - begin_ns)
        if self.step_index == self._trajectories.layout.rollout:
            with self._timing.add_time(READ_FIGURES):
                self._tell()

    def _write(self, step: TensorStep) -> None:
        memory, members, now, where = self._trajectories, self._members, self.step_index, self._where
        behind, ended = now + 1, step.terminated | step.truncated
        members.lengths += 1
        seen, are_seen_bad = self._mended_tensors(self._envs[0].as_tensors(step.observations))
        final, are_final_bad = self._finals(step, ended, seen, are_seen_bad)
        is_finite = torch.isfinite(step.rewards)
        rewards = torch.where(is_finite, step.rewards, 0)
        is_bad = torch.stack([*are_final_bad.values()]).any(0) if are_final_bad else ~is_finite
        is_left_out = members.spoiled | ~is_finite | is_bad
        memory.spoiled[where, now] = is_left_out & ~members.inactive
        memory.inactive[where, now] = is_left_out | members.inactive
        memory.rewards[where, now] = rewards
        memory.terminated[where, now] = step.terminated
        memory.truncated[where, now] = step.truncated
        members.returns += rewards
        bad = {key: are_final_bad[key] | (are_seen_bad[key] & ended) for key in are_final_bad}
        self._figures.note(now, ended, members.returns, members.lengths, [~is_finite, *bad.values()], step)

        inactive = step.inactive()
        inactive = torch.zeros_like(ended) if inactive is None else inactive
        begins_late = members.to_begin & ~inactive
        states: Any = memory.states[where, behind]
        states = states.masked_fill(begins_late[:, None], 0.0)
        memory.final_states[where, now] = states
        for key, finals in memory.final_observations.items():
            finals[where, now] = final[key]
        is_last = behind == memory.layout.rollout
        if is_last:  # o_T and h_T stay those of the episode that ended: the Learner bootstraps from them
            self._fresh_observations = seen
            members.is_fresh = ended
        else:
            memory.starts_episode[where, behind] = begins_late | ended
            states = states.masked_fill(ended[:, None], 0.0)
        memory.states[where, behind] = states
        for key, array in memory.observations.items():
            array[where, behind] = final[key] if is_last else seen[key]

        members.to_begin = torch.where(ended, inactive, members.to_begin & inactive)
        members.returns = members.returns.masked_fill(ended, 0.0)
        # The step that shows a member the first observation of its episode is none of it.
        members.lengths = torch.where(ended, -(inactive.to(members.lengths.dtype)), members.lengths)
        members.spoiled = torch.stack([*bad.values()]).any(0) if bad else torch.zeros_like(ended)
        members.inactive = inactive

    def _finals(self, step: TensorStep, ended: Tensor, seen: Tensors, are_seen_bad: Tensors) -> tuple[Tensors, Tensors]:
        """Return what ended episodes led to, of others what members see next; and whose numbers are not good, by key.

        Where a vector shows the next episode instead and does not tell, it is the observation before, which the slot
        has.
        """
        if not step.shows_next:
            return seen, are_seen_bad
        memory, where, now = self._trajectories, self._where, self.step_index
        told, is_told = step.final_observations()
        before: Tensors = {key: array[where, now] for key, array in memory.observations.items()}  # type: ignore[misc]
        if told is None:
            final, are_bad = before, {key: torch.zeros_like(ended) for key in are_seen_bad}
        else:
            final, are_bad = self._mended_tensors(self._envs[0].as_tensors(told))
            if is_told is not None:
                final = {key: _where(is_told, values, before[key]) for key, values in final.items()}
        return (
            {key: _where(ended, values, seen[key]) for key, values in final.items()},
            {key: torch.where(ended, is_bad, are_seen_bad[key]) for key, is_bad in are_bad.items()},
        )

    def _mended_tensors(self, observations: Tensors) -> tuple[Tensors, Tensors]:
        """Return observations with numbers in the place of what no network can take, and whose these are by key."""
        mended, are_bad = dict(observations), {}
        for key in self._figures.keys:
            values = observations[key]
            if key in self._ranges:
                first, last = self._ranges[key]
                mended[key] = values.clamp(first, last)
                is_good = mended[key] == values
            else:
                is_good = torch.isfinite(values)
                mended[key] = torch.where(is_good, values, 0)
            are_bad[key] = ~is_good.reshape(len(values), -1).all(1)
        return mended, are_bad

    def _tell(self) -> None:
        """Note the episodes that ended in the rollout, and report what was not finite; this waits for the device."""
        for row, key, where in self._figures.bad():
            if key in self._ranges:
                self._envs[0].refuse(f"step() returned observation {key!r} out of its space in {where}")
            what = f"numbers of observation {key!r} that are not finite" if key else "a reward that is not finite"
            self._bad_numbers.report(self._first_env, row, what, where)
        for row, episode_return, length, info in self._figures.episodes():
            self._tell_of_episode(0, row, info, episode_return, length)
        self._figures.begin()

    def course(self) -> dict[str, Any]:
        """Return where the group is, without its environments and trajectories, as data for `follow`."""
        members = {each.name: getattr(self._members, each.name).cpu().numpy() for each in fields(self._members)}
        fresh, to_begin, spoiled = (np.flatnonzero(members.pop(name)) for name in ("is_fresh", "to_begin", "spoiled"))
        observations = {key: values.cpu().numpy()[fresh] for key, values in self._fresh_observations.items()}
        return super().course() | {
            **members,
            "fresh": [(fresh, observations)] if len(fresh) else [],
            "to_begin": to_begin.tolist(),
            "spoiled_rows": spoiled.tolist(),
            "figures": self._figures.course(),
        }

    def follow(self, course: dict[str, Any]) -> None:
        """Go on from a course instead of a reset."""
        super().follow(course)
        self._where = self._address(self.slots)
        rows, fresh = np.arange(self._num_agents), course["fresh"]
        to_begin, spoiled = (np.isin(rows, course[name]) for name in ("to_begin", "spoiled_rows"))
        is_fresh = np.isin(rows, fresh[0][0]) if fresh else np.zeros_like(spoiled)
        self._members = self._place(self._returns, self._lengths, self._inactive, to_begin, spoiled, is_fresh)
        self._fresh_observations = {}
        for key, values in (fresh[0][1] if fresh else {}).items():
            whole = np.zeros((self._num_agents, *values.shape[1:]), values.dtype)
            whole[is_fresh] = values
            self._fresh_observations[key] = as_tensor(whole, self._device)
        self._figures.follow(course["figures"])

    def _place(self, *arrays: npt.NDArray[Any]) -> _Members:
        return _Members(*(as_tensor(array.copy(), self._device).clone() for array in arrays))

    def _address(self, slots: npt.NDArray[np.int32]) -> Any:
        address = address_of(slots)
        return address if isinstance(address, slice) else as_index(address, self._device)


def _where(rows: Tensor, values: Tensor, others: Tensor) -> Tensor:
    """Return values of these rows `[N]`, and of others the others, `[N, ...]`."""
    return torch.where(rows.view(-1, *[1] * (others.ndim - 1)), values, others)
