"""A vector of environments that one call steps, as one environment of as many agents whose episodes end one by one.

Two kinds are understood: ``gymnasium.vector.VectorEnv``, and simulators that have ``num_agents`` or ``num_envs``, the
spaces of one member, ``reset() -> (observations, infos)`` and ``step(actions) -> (observations, rewards, terminated,
truncated, infos)`` with a first dimension of that length everywhere. Actions come as gymnasium batches them: an array,
for a Tuple a tuple of arrays. Infos are one dictionary for each member, or one dictionary of arrays.

Simulators begin episodes by themselves, environments of several agents do not. What returns lists of observations, as
those do, is asked to begin anew wherever a step has ended the episodes of all: once too often at worst.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from sample_profiler.envs.contract import name_of_env
from sample_profiler.errors import EnvContractError

__all__ = ["OnlyMember", "VectorAgents", "is_vector"]

_FINAL_OBSERVATION_KEYS = ("final_obs", "final_observation")
_FINAL_INFO_KEY = "final_info"


def is_vector(env: Any) -> bool:
    """Tell whether one call steps many environments, or may: what has neither number, or one agent, is one of its own.

    Args:
        env: What a registered function returned.
    """
    begins_itself = callable(getattr(env, "begin_episodes", None))  # by the contract of several agents
    return isinstance(env, VectorEnv) or (_read_size(env) is not None and not begins_itself)


class VectorAgents:
    """Members of a vector as agents, by the contract of several agents and with :meth:`begin_episodes`.

    Members that begin anew within the step that ended their episode tell the final observation in the infos, under
    ``final_obs`` or ``final_observation``; without, the observation before it stands for it. Where they begin anew with
    the next step, whose action they ignore, that step is inactive: it is not trained on.

    Attributes:
        num_agents: Number of members.
        observation_space: Of one member.
        action_space: Of one member.
        metadata: The vector's own.
    """

    def __init__(self, env: Any, name: str | None = None) -> None:
        """Wrap a vector.

        Args:
            env: The vector.
            name: Its name in error messages; by default what it calls itself.

        Raises:
            EnvContractError: It does not say how many members it has.
        """
        name = name or name_of_env(env)
        self._env = env
        self.num_agents = _read_num_members(env, name)
        self.observation_space = getattr(env, "single_observation_space", None) or env.observation_space
        self.action_space = getattr(env, "single_action_space", None) or env.action_space
        self.metadata = getattr(env, "metadata", None) or {}
        # gymnasium's vectors say when members begin anew; simulators do so within the step that ended an episode.
        usual = AutoresetMode.NEXT_STEP if isinstance(env, VectorEnv) else AutoresetMode.SAME_STEP
        self._autoreset = self.metadata.get("autoreset_mode", usual)
        self._batched_observations = batch_space(self.observation_space, self.num_agents)
        self._latest: list[Any] = []
        self._name = name
        # Whether it says nothing of when members begin anew, and returns lists as environments of several agents do.
        self._may_be_agents = False

    def reset(self, **keywords: Any) -> tuple[list[Any], list[Any]]:
        """Begin an episode everywhere; keywords are the vector's own, such as ``seed``."""
        observations, infos = self._env.reset(**keywords)
        self._may_be_agents = self._are_by_member(observations) and "autoreset_mode" not in self.metadata
        self._latest = self._split(observations)
        return list(self._latest), self._describe_begin(infos)

    def step(self, actions: Sequence[Any]) -> Any:
        """Take one step; observations of members whose episode ended are the final ones."""
        result = self._env.step(self._join(actions))
        if not isinstance(result, tuple) or len(result) != 5:
            return result  # the check of the contract says what is wrong with it
        observations, rewards, terminated, truncated, infos = result
        previous, self._latest = self._latest, self._split(observations)
        final = list(self._latest)
        described = self._describe(infos)
        rewards, terminated, truncated = map(self._by_member, (rewards, terminated, truncated))
        ended = np.flatnonzero(terminated | truncated).tolist()
        if self._may_be_agents and len(ended) < self.num_agents:
            self._check_goes_on(ended, infos)
        for member in ended:
            if self._autoreset is AutoresetMode.SAME_STEP:
                final[member] = _find_final_observation(infos, member, previous[member])
            described[member] = _describe_end(infos, member)
            if self._autoreset is AutoresetMode.NEXT_STEP:
                described[member] = {**described[member], "is_active": False}
        return final, rewards.tolist(), terminated.tolist(), truncated.tolist(), described

    def begin_episodes(self, agents: Sequence[int]) -> list[Any]:
        """Return what members see first in their next episode.

        Args:
            agents: All members whose episode the latest step ended.
        """
        if self._may_be_agents and len(agents) == self.num_agents:
            self.reset()
        if self._autoreset is AutoresetMode.DISABLED:
            mask = np.zeros(self.num_agents, dtype=np.bool_)
            mask[list(agents)] = True
            observations, _ = self._env.reset(options={"reset_mask": mask})
            self._latest = self._split(observations)
        return [self._latest[agent] for agent in agents]

    def render(self) -> Any:
        """Return what the first member renders."""
        frames = self._env.render()
        return frames[0] if isinstance(frames, tuple | list) and frames else frames

    def close(self) -> None:
        """End the vector, if there is anything to end."""
        close = getattr(self._env, "close", None)
        if close is not None:
            close()

    def _check_goes_on(self, ended: Sequence[int], infos: Any) -> None:
        """Refuse agents that wait for others to end: they are none that begin anew by themselves.

        Raises:
            EnvContractError: There is one.
        """
        for member in ended:
            if not isinstance(infos, Mapping) and not infos[member].get("is_active", True):
                raise EnvContractError(
                    f"environment {self._name} with --batched_sampling=True: agent {member} has ended its episode and "
                    "is inactive while others go on, so this is no vector, whose members begin anew one by one: leave "
                    "the flag out"
                )

    def _join(self, actions: Sequence[Any]) -> Any:
        if self._may_be_agents and isinstance(self.action_space, spaces.Tuple | spaces.Dict):
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
        # Copied: the vector may write the next observations where these are.
        return list(iterate(self._batched_observations, copy.deepcopy(observations)))

    def _by_member(self, values: Any) -> np.ndarray[Any, Any]:
        """Return what there is one of for each member, also where that is an array of one number."""
        array = np.asarray(values)
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
        if "is_active" in infos:
            return [{"is_active": bool(is_active)} for is_active in infos["is_active"]]
        return [{}] * self.num_agents


class OnlyMember:
    """The single member of a vector, as an environment of one agent: its reset is the vector's.

    Attributes:
        observation_space: Of the member.
        action_space: Of the member.
        metadata: The vector's own.
    """

    def __init__(self, vector: VectorAgents) -> None:
        """Take it out of a vector.

        Args:
            vector: Of one member.
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


def _find_final_observation(infos: Any, member: int, otherwise: Any) -> Any:
    """Return the final observation of a member whose vector shows the first one of its next episode already."""
    info = infos if isinstance(infos, Mapping) else infos[member]
    for key in _FINAL_OBSERVATION_KEYS:
        if info.get(key) is not None:
            return _pick(info[key], member) if info is infos else info[key]
    return otherwise


def _describe_end(infos: Any, member: int) -> dict[str, Any]:
    """Return what the infos of the step that ended its episode say of a member."""
    if not isinstance(infos, Mapping):
        return dict(infos[member])
    own = {key: value for key, value in infos.items() if key not in (*_FINAL_OBSERVATION_KEYS, _FINAL_INFO_KEY)}
    return {**_entries_of(own, member), **_entries_of(infos.get(_FINAL_INFO_KEY) or {}, member)}


def _entries_of(infos: Mapping[str, Any], member: int) -> dict[str, Any]:
    """Return a member's part of a dictionary of arrays, beside which masks say who has an entry."""
    return {
        key: _entries_of(value, member) if isinstance(value, Mapping) else _pick(value, member)
        for key, value in infos.items()
        if not key.startswith("_") and (f"_{key}" not in infos or infos[f"_{key}"][member])
    }


def _pick(values: Any, member: int) -> Any:
    if isinstance(values, Mapping):
        return {key: _pick(value, member) for key, value in values.items()}
    return values[member] if np.ndim(values) or isinstance(values, tuple | list) else values
