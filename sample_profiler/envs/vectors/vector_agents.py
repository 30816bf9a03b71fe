"""A vector of environments that one call steps, as one environment of as many agents whose episodes end one by one.

Two kinds are understood: ``gymnasium.vector.VectorEnv``, and simulators that have ``num_agents`` or ``num_envs``, the
spaces of one member, ``reset() -> (observations, infos)`` and ``step(actions) -> (observations, rewards, terminated,
truncated, infos)`` with a first dimension of that length everywhere. Actions come as gymnasium batches them: an array,
for a Tuple a tuple of arrays. Infos are one dictionary for each member, or one dictionary of arrays. Arrays are of
numpy, PyTorch or whatever has ``__dlpack__``; who observes with tensors gets actions as tensors on the same device.

Simulators begin episodes by themselves, environments of several agents do not. What returns lists of observations, as
those do, is asked to begin anew wherever a step has ended the episodes of all: once too often at worst.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from sample_profiler.envs.contract import check_reset_pair, name_of_env
from sample_profiler.envs.vectors.autoreset import check_infos, read_autoreset, tells_finals, with_named_finals
from sample_profiler.envs.vectors.host_arrays import (
    as_host_array,
    as_host_arrays,
    find_foreign,
    find_tensor,
    like_tensor,
)
from sample_profiler.envs.vectors.row_bounds import find_row_bounds
from sample_profiler.envs.vectors.vector_step import VectorStep, find_inactive
from sample_profiler.errors import EnvContractError
from sample_profiler.profiling import get_timing
from sample_profiler.spaces import is_nested
from sample_profiler.vocabulary import SIMULATE

if TYPE_CHECKING:
    import torch

    from sample_profiler.envs.pettingzoo import ParallelAgents

__all__ = ["OnlyMember", "VectorAgents", "is_vector"]


def is_vector(env: Any) -> bool:
    """Tell whether one call steps many environments, or may: what has neither number, or one agent, is one of its own.

    Args:
        env: What a registered function returned.
    """
    begins_itself = callable(getattr(env, "begin_episodes", None))  # by the contract of several agents
    # Agents with spaces of their own, which no arrays hold.
    differ = any(isinstance(getattr(env, each, None), list | tuple) for each in ("observation_space", "action_space"))
    return isinstance(env, VectorEnv) or (_read_size(env) is not None and not begins_itself and not differ)


class VectorAgents:
    """Members of a vector: as arrays, and as agents, by the contract of several agents with :meth:`begin_episodes`.

    Members that begin anew within the step that ended their episode tell the final observation in the infos, under
    ``final_obs`` or ``final_observation``, batched or one by one; without, the observation before it stands for it.
    Where they begin anew with the next step, whose action they ignore, that step is inactive: it is not trained on.

    Whoever begins with :meth:`reset_all` and :meth:`first_arrays` goes on with :meth:`step_arrays` and
    :meth:`begin_arrays`; where :meth:`find_device` says so, with :meth:`first_tensors` and :meth:`step_tensors`.

    Attributes:
        num_agents: Number of members.
        observation_space: Of one member.
        action_space: Of one member.
        metadata: The vector's own.
        device: Where its steps stay as tensors, once it has been found out that they can.
    """

    device: torch.device
    _from_tensor: Callable[[torch.Tensor], Any]

    def __init__(self, env: Any, name: str | None = None) -> None:
        """Wrap a vector.

        Args:
            env: The vector.
            name: Its name in error messages; by default what it calls itself.

        Raises:
            EnvContractError: It does not say how many members it has, or nothing known of when they begin anew.
        """
        name = name or name_of_env(env)
        self._env = env
        self.num_agents = _read_num_members(env, name)
        self.observation_space = getattr(env, "single_observation_space", None) or env.observation_space
        self.action_space = getattr(env, "single_action_space", None) or env.action_space
        self.metadata = getattr(env, "metadata", None) or {}
        self._row_bounds = find_row_bounds(getattr(env, "action_space", None), self.action_space, self.num_agents)
        told = read_autoreset(self.metadata, name)
        # gymnasium's vectors begin anew with the next step; simulators do so within the step that ended an episode.
        self._autoreset = told or (AutoresetMode.NEXT_STEP if isinstance(env, VectorEnv) else AutoresetMode.SAME_STEP)
        self._says_when = told is not None
        self._is_nested = is_nested(self.observation_space)
        self._batched_observations = batch_space(self.observation_space, self.num_agents)
        self._observations: Any = None  # the latest, as the vector returned them
        self._latest: list[Any] = []  # a copy of them, one by one
        self._tensor: Any = None  # one of them, if these are PyTorch's
        self._result: Any = None  # of the latest reset, or step of tensors
        self._name = name
        # Whether it says nothing of when members begin anew, and returns lists as environments of several agents do.
        self._may_be_agents = False

    def reset(self, **keywords: Any) -> tuple[list[Any], list[Any]]:
        """Begin an episode everywhere; keywords are the vector's own, such as ``seed``."""
        infos = self._reset(**keywords)
        self._latest = self._split(self._observations)
        return list(self._latest), self._describe_begin(infos)

    def step(self, actions: Sequence[Any]) -> Any:
        """Take one step; observations of members whose episode ended are the final ones."""
        step = self._step(self._join(actions))
        if not isinstance(step, VectorStep):
            return step  # the check of the contract says what is wrong with it
        previous, self._latest = self._latest, self._split(step.observations)
        return self._as_lists(step, previous, list(self._latest))

    def begin_episodes(self, agents: Sequence[int]) -> list[Any]:
        """Return what members see first in their next episode.

        Args:
            agents: All members whose episode the latest step ended.
        """
        if self._begin(agents):
            self._latest = self._split(self._observations)
        return [self._latest[agent] for agent in agents]

    def reset_all(self, **keywords: Any) -> None:
        """Begin an episode everywhere, as :meth:`reset`; what members see first is asked for afterwards."""
        self._reset(**keywords)

    def first_arrays(self) -> tuple[Any, npt.NDArray[np.bool_] | bool]:
        """Return the first observations of all, batched, and who has no part in the first step, `[N]` (False: nobody).

        They are those of the latest reset.
        """
        return self._batched(self._observations), find_inactive(self._describe_begin(self._result[1]))

    def find_device(self) -> torch.device | None:
        """Return on which device all of its steps can stay as tensors, after a reset; None: they cannot.

        They can where members begin anew by themselves, and observations are arrays that are not of numpy.
        """
        observations, _ = self._result
        foreign = find_foreign(observations)
        begins_itself = self._autoreset is not AutoresetMode.DISABLED
        if foreign is None or not begins_itself or self._are_by_member(observations) or self._takes_lists:
            return None
        # Only who has tensors needs torch.
        from sample_profiler.envs.vectors.action_tensors import clipping_rows, tensor_converter
        from sample_profiler.envs.vectors.tensor_step import as_tensor

        self.device = as_tensor(foreign).device
        self._from_tensor = tensor_converter(self.action_space, self.device)
        if self._row_bounds is not None:
            self._from_tensor = clipping_rows(self._from_tensor, self._row_bounds, self.device)
        return self.device

    def first_tensors(self) -> tuple[Any, npt.NDArray[np.bool_] | bool]:
        """Return what :meth:`first_arrays` does, observations as the vector returned them."""
        observations, infos = self._result
        return observations, find_inactive(self._describe_begin(infos))

    def step_tensors(self, actions: torch.Tensor) -> Any:
        """Take one step with the actions of all members, `[N, action_width]`; return a `TensorStep` on its device.

        What is not of the contract is returned as it is.
        """
        from sample_profiler.envs.vectors.tensor_step import TensorStep, as_flags, as_tensor, like_foreign

        timing = get_timing()
        with timing.add_time("hand_over", device=True):
            handed_over = like_foreign(self._from_tensor(actions), self._tensor is not None)
        with timing.add_time(SIMULATE, device=True):
            self._result = result = self._env.step(handed_over)
            if not isinstance(result, tuple) or len(result) != 5:
                return result
            observations, *numbers, infos = result
            # Within the block: it makes PyTorch's line of work wait for that of a simulator which has one of its own.
            rewards, terminated, truncated = (as_tensor(values, self.device) for values in numbers)
        rewards, terminated, truncated = (
            values[:, 0] if values.shape == (self.num_agents, 1) else values
            for values in (rewards, as_flags(terminated), as_flags(truncated))
        )
        infos = self._read_infos(infos)
        return TensorStep(observations, rewards, terminated, truncated, infos, self._autoreset)

    def result_as_lists(self) -> Any:
        """Return what :meth:`step` would have returned where :meth:`step_tensors` was called."""
        step = self._read(self._result)
        return self.step_as_lists(step) if isinstance(step, VectorStep) else step

    def step_arrays(self, actions: Any) -> Any:
        """Take one step with the actions of all members, batched; return a `VectorStep`.

        What is not of the contract is returned as it is, as :meth:`step` does.
        """
        if self._takes_lists:
            actions = list(iterate(batch_space(self.action_space, self.num_agents), actions))
        step = self._step(actions)
        return replace(step, observations=self._batched(step.observations)) if isinstance(step, VectorStep) else step

    def begin_arrays(self, members: Sequence[int]) -> Any:
        """Return what all members see, batched: those given see it first in their next episode."""
        self._begin(members)
        return self._batched(self._observations)

    def step_as_lists(self, step: VectorStep) -> Any:
        """Return what :meth:`step` would have returned; a final observation that is not told is any."""
        observations = self._split(step.observations)
        return self._as_lists(step, observations, list(observations))

    def begin_as_lists(self) -> tuple[list[Any], list[Any]]:
        """Return what :meth:`reset` would have returned."""
        return self._split(self._observations), [{}] * self.num_agents

    def render(self) -> Any:
        """Return what the first member renders."""
        frames = as_host_arrays(self._env.render())
        are_several = isinstance(frames, tuple | list) or np.ndim(frames) == 4
        return frames[0] if are_several and len(frames) else frames

    def close(self) -> None:
        """End the vector, if there is anything to end."""
        close = getattr(self._env, "close", None)
        if close is not None:
            close()

    @property
    def _takes_lists(self) -> bool:
        """Whether actions go to the vector one for each member, in a list."""
        return self._may_be_agents and isinstance(self.action_space, spaces.Tuple | spaces.Dict)

    def _reset(self, **keywords: Any) -> Any:
        """Reset the vector, note what it observes, and return its infos."""
        self._result = observations, infos = self._reset_env(**keywords)
        self._may_be_agents = self._are_by_member(observations) and not self._says_when
        self._tensor = find_tensor(observations)
        self._observations = as_host_arrays(observations)
        return infos

    def _reset_env(self, **keywords: Any) -> Any:
        result = self._env.reset(**keywords)
        check_reset_pair(result, self._name)
        return result

    def _step(self, actions: Any) -> Any:
        if self._row_bounds is not None:
            actions = np.clip(actions, *self._row_bounds)
        return self._read(self._env.step(like_tensor(actions, self._tensor)))

    def _read(self, result: Any) -> Any:
        """Return what a step returned as a `VectorStep`, or as it is if it is not of the contract."""
        if not isinstance(result, tuple) or len(result) != 5:
            return result
        observations, rewards, terminated, truncated, infos = result
        infos = self._read_infos(infos)
        self._observations = as_host_arrays(observations)
        rewards, terminated, truncated = map(self._by_member, (rewards, terminated, truncated))
        terminated, truncated = map(_as_flags, (terminated, truncated))
        ended = np.flatnonzero(np.logical_or(terminated, truncated))
        if self._may_be_agents and len(ended) < self.num_agents:
            self._check_goes_on(ended, infos)
        return VectorStep(self._observations, rewards, terminated, truncated, infos, self._autoreset, ended)

    def _read_infos(self, infos: Any) -> Any:
        """Return infos of a step, and note what they show of when members begin anew, if nothing else says when."""
        check_infos(infos, self.num_agents, self._name)
        may_differ = self._autoreset is not AutoresetMode.SAME_STEP and not self._says_when
        if may_differ and tells_finals(infos):
            self._autoreset = AutoresetMode.SAME_STEP
        return with_named_finals(infos, self.observation_space) if self._is_nested else infos

    def _begin(self, members: Sequence[int] | npt.NDArray[np.intp]) -> bool:
        """Have members begin anew that do not do so by themselves; return whether there is anything new to see."""
        if self._may_be_agents and len(members) == self.num_agents:
            self._reset()
            return True
        if self._autoreset is not AutoresetMode.DISABLED:
            return False
        mask = np.zeros(self.num_agents, dtype=np.bool_)
        mask[np.asarray(members)] = True
        observations, _ = self._reset_env(options={"reset_mask": mask})
        self._observations = as_host_arrays(observations)
        return True

    def _as_lists(self, step: VectorStep, previous: Sequence[Any], final: list[Any]) -> tuple[Any, ...]:
        described = self._describe(step.infos)
        for member, info in zip(step.ended.tolist(), step.end_infos(), strict=True):
            if step.shows_next:
                told = step.final_of(member)
                final[member] = previous[member] if told is None else told
            described[member] = info
        return final, step.rewards.tolist(), step.terminated.tolist(), step.truncated.tolist(), described

    def _check_goes_on(self, ended: npt.NDArray[np.intp], infos: Any) -> None:
        """Refuse agents that wait for others to end: they are none that begin anew by themselves.

        Raises:
            EnvContractError: There is one.
        """
        for member in ended.tolist():
            if not isinstance(infos, Mapping) and not infos[member].get("is_active", True):
                raise EnvContractError(
                    f"environment {self._name} with --batched_sampling=True: agent {member} has ended its episode and "
                    "is inactive while others go on, so this is no vector, whose members begin anew one by one: leave "
                    "the flag out"
                )

    def _join(self, actions: Sequence[Any]) -> Any:
        if self._takes_lists:
            return list(actions)
        batch: Any = create_empty_array(self.action_space, self.num_agents)
        return concatenate(self.action_space, actions, batch)

    def _are_by_member(self, observations: Any) -> bool:
        """Tell whether there is one observation for each member, not one whose arrays have that as first dimension."""
        return isinstance(observations, list) or (
            isinstance(observations, tuple) and not isinstance(self.observation_space, spaces.Tuple)
        )

    def _split(self, observations: Any) -> list[Any]:
        if self._are_by_member(observations):
            return list(copy.deepcopy(observations))
        if isinstance(observations, Mapping) and not isinstance(self.observation_space, spaces.Dict):
            raise EnvContractError(
                f"environment {self._name} returned a dictionary of {sorted(map(str, observations))} as observations; "
                f"observation_space is {self.observation_space}: return what is of it, or give it the Dict"
            )
        # Copied: the vector may write the next observations where these are.
        observations = copy.deepcopy(observations)
        try:
            return list(iterate(self._batched_observations, observations))
        except ValueError as error:  # of a dictionary
            raise EnvContractError(
                f"environment {self._name} returned observations with entries of unequal length; the first dimension "
                f"of each is that of its {self.num_agents} members"
            ) from error

    def _batched(self, observations: Any) -> Any:
        if not self._are_by_member(observations):
            return observations
        batch: Any = create_empty_array(self.observation_space, self.num_agents)
        return concatenate(self.observation_space, observations, batch)

    def _by_member(self, values: Any) -> npt.NDArray[Any]:
        """Return what there is one of for each member, also where that is an array of one number."""
        array = as_host_array(values)
        return array[:, 0] if array.shape == (self.num_agents, 1) else array

    def _describe_begin(self, infos: Any) -> list[Any]:
        """Return what a reset says of members, if it says that in the way of steps; it may return anything."""
        are_own = isinstance(infos, list | tuple) and all(isinstance(info, Mapping) for info in infos)
        if isinstance(infos, Mapping) or (are_own and len(infos) == self.num_agents):
            return self._describe(infos)
        return [{}] * self.num_agents

    def _describe(self, infos: Any) -> list[Any]:
        if not isinstance(infos, Mapping):
            return list(infos)
        inactive = find_inactive(infos)
        return [{}] * self.num_agents if inactive is False else [{"is_active": not each} for each in inactive.tolist()]


class OnlyMember:
    """The single member of a vector, as an environment of one agent: its reset is the vector's.

    Attributes:
        observation_space: Of the member.
        action_space: Of the member.
        metadata: The vector's own.
    """

    def __init__(self, vector: VectorAgents | ParallelAgents) -> None:
        """Take it out of a vector.

        Args:
            vector: Of one member; or the only agent of several that there could be.
        """
        self._vector = vector
        self.observation_space = vector.observation_space
        self.action_space = vector.action_space
        self.metadata = vector.metadata

    def reset(self, **keywords: Any) -> tuple[Any, Any]:
        """Begin an episode; keywords are the vector's own, such as ``seed``."""
        observations, infos = self._vector.reset(**keywords)
        return observations[0], infos[0]

    def step(self, action: Any) -> Any:
        """Take one step; an observation that ends an episode is the final one."""
        result = self._vector.step([action])
        return tuple(each[0] for each in result) if isinstance(result, tuple) and len(result) == 5 else result

    def render(self) -> Any:
        """Return what the member renders."""
        return self._vector.render()

    def close(self) -> None:
        """End the vector."""
        self._vector.close()


def _read_size(env: Any) -> Any:
    """Return what an environment says of its number of members; None: nothing, or that it has one agent."""
    inner = getattr(env, "unwrapped", env)
    # gymnasium's wrappers do not pass on attributes of the environment inside.
    num_agents, num_envs = (getattr(env, name, getattr(inner, name, None)) for name in ("num_agents", "num_envs"))
    return num_envs if isinstance(env, VectorEnv) or num_agents in (None, 1) else num_agents


def _read_num_members(env: Any, name: str) -> int:
    num_members = _read_size(env)
    if isinstance(num_members, bool) or not isinstance(num_members, int | np.integer) or num_members < 1:
        raise EnvContractError(
            f"environment {name} with --batched_sampling=True: it has to be a vector of 1 environment or more, which "
            f"says how many as num_envs or num_agents, and has {num_members!r}; leave both out for an environment that "
            "is no vector"
        )
    return int(num_members)


def _as_flags(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return numbers that are all 0 or 1 as flags, and anything else as it is: the check of the contract names it."""
    is_meant = values.dtype.kind in "iuf" and bool(np.logical_or(values == 0, values == 1).all())
    return values.astype(np.bool_) if is_meant else values
