"""A group whose only environment is a vector: its members step as arrays all the way, into one block of slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from sample_profiler.components.rollout_worker.stepping_group import Flags, Numbers, SteppingGroup
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.attribution import checks_contract_on_error
from sample_profiler.envs.bad_numbers import is_finite
from sample_profiler.envs.vectors.vector_step import VectorStep
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.storage.sampling_plan import Group
from sample_profiler.storage.trajectories import Trajectories
from sample_profiler.vocabulary import ENV_RESET

__all__ = ["VectorGroup", "make_stepping_group"]

Arrays = dict[str, npt.NDArray[Any]]
Rows = npt.NDArray[np.intp]


def make_stepping_group(
    group: Group, envs: Sequence[AgentsEnv], trajectories: Trajectories, *arguments: Any, may_move: bool = False
) -> SteppingGroup:
    """Make what steps a group: a `VectorGroup` where that can be.

    Args:
        group: which environments and agent rows these are.
        envs: the environments.
        trajectories: memory to write to.
        arguments: the others of a `SteppingGroup`.
        may_move: the memory may move to where a vector observes; it then steps as tensors, by a `TensorGroup`.
    """
    is_vector = len(envs) == 1 and len(set(group.policies)) == 1 and envs[0].offers_arrays
    if is_vector and may_move and (device := envs[0].find_device()) is not None:
        # Only who has tensors needs torch.
        from sample_profiler.components.rollout_worker.tensor_group import TensorGroup

        trajectories.move_to(device)
        return TensorGroup(group, envs, trajectories, *arguments)
    return (VectorGroup if is_vector else SteppingGroup)(group, envs, trajectories, *arguments)


class VectorGroup(SteppingGroup):
    """Members of one vector, who follow one policy, as rows of a group; arguments are those of a `SteppingGroup`.

    What it does is what its base does with the same members one by one, to the last bit.
    """

    @profile_range("SteppingGroup.reset")
    @checks_contract_on_error
    def reset(self, num_random_steps: int, after_each: Callable[[], None] = lambda: None) -> None:  # noqa: ARG002
        """Begin an episode everywhere; the first environment of a group takes no random steps, and there is no other.

        Args:
            num_random_steps: of further environments.
            after_each: is called after the reset.
        """
        self._trajectories.final_step[self._rows] = 0
        observations, inactive = self._envs[0].reset_arrays()
        rows = np.arange(self._num_agents)
        first = self._mended_rows(rows, {key: array.copy() for key, array in observations.items()})
        self._counted.inactive[:] = inactive
        self._counted.begin(rows)
        after_each()
        self._fresh = [(rows, first)]

    def _step_envs(self, actions: npt.NDArray[Any]) -> tuple[Numbers, Flags, Flags, Callable[[], None] | None]:
        begin_ns = perf_counter_ns()
        step = self._envs[0].step_arrays(actions)
        self._count_step(0, perf_counter_ns() - begin_ns)
        self._write_observation(self._trajectories, self._where, self.step_index + 1, step.observations)
        if not len(step.ended):
            self._counted.inactive[:] = step.inactive(())
            return step.rewards, step.terminated, step.truncated, None
        infos = step.end_infos()
        self._counted.inactive[:] = step.inactive(infos)
        if step.shows_next:
            self._write_finals(step)
        return step.rewards, step.terminated, step.truncated, partial(self._end_members, step, infos)

    def _write_finals(self, step: VectorStep) -> None:
        """Put final observations in the place of the first ones of the next episodes.

        Where one is not told, the observation before, which the slot has, stands for it.
        """
        slots, behind = self.slots[step.ended], self.step_index + 1
        for array in self._trajectories.observations.values():
            array[slots, behind] = array[slots, behind - 1]
        told, finals = self._envs[0].final_arrays(step)
        if len(told):
            self._write_observation(self._trajectories, self.slots[told], behind, finals)

    @profile_range("SteppingGroup.end_episode")
    def _end_members(self, step: VectorStep, infos: Sequence[Any]) -> None:
        """Note the episodes that ended, keep what their value bootstrap needs, and begin the next ones."""
        rows = step.ended
        for row, info in zip(rows.tolist(), infos, strict=True):
            self._note_episode(0, row, info)
        self._keep_final(rows[~step.terminated[rows]])
        with self._timing.add_time(ENV_RESET):
            begin_ns = perf_counter_ns()
            observations = self._mended_rows(rows, self._envs[0].begin_arrays(rows))
            self._counted.begin(rows)
            self.reset_ns[0] += perf_counter_ns() - begin_ns
        self._begin_behind(rows, observations)

    def _mended_rows(self, rows: Rows, observations: Arrays) -> Arrays:
        """Return observations of these rows, `[num_rows, ...]`, with zeros in the place of what is not finite."""
        if all(is_finite(observations[key]) for key in self._float_keys):
            return observations
        one_by_one = [{key: array[index] for key, array in observations.items()} for index in range(len(rows))]
        mended = self._mended(0, rows.tolist(), one_by_one)
        return {key: np.stack([each[key] for each in mended]) for key in observations}
