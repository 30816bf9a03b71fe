"""A vector of environments that one call steps, as one environment of as many agents whose episodes end one by one.

Two kinds are understood: ``gymnasium.vector.VectorEnv``, and simulators that have ``num_agents`` or ``num_envs``, the
spaces of one member, ``reset() -> (observations, infos)`` and ``step(actions) -> (observations, rewards, terminated,
truncated, infos)`` with a first dimension of that length everywhere. Actions come as gymnasium batches them: an array,
for a Tuple a tuple of arrays. Infos are one dictionary for each member, or one dictionary of arrays.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from sample_profiler.envs.contract import name_of_env
from sample_profiler.errors import EnvContractError

__all__ = ["VectorAgents"]

_FINAL_OBSERVATION_KEYS = ("final_obs", "final_observation")
_FINAL_INFO_KEY = "final_info"


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
            EnvContractError: It is no vector, or has a single member.
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

    def reset(self, **keywords: Any) -> tuple[list[Any], list[Any]]:
        """Begin an episode everywhere; keywords are the vector's own, such as ``seed``."""
        observations, _ = self._env.reset(**keywords)
        self._latest = self._split(observations)
        return list(self._latest), [{}] * self.num_agents

    def step(self, actions: Sequence[Any]) -> Any:
        """Take one step; observations of members whose episode ended are the final ones."""
        result = self._env.step(self._join(actions))
        if not isinstance(result, tuple) or len(result) != 5:
            return result  # the check of the contract says what is wrong with it
        observations, rewards, terminated, truncated, infos = result
        previous, self._latest = self._latest, self._split(observations)
        final = list(self._latest)
        described = self._describe(infos)
        terminated, truncated = np.asarray(terminated), np.asarray(truncated)
        for member in np.flatnonzero(terminated | truncated).tolist():
            if self._autoreset is AutoresetMode.SAME_STEP:
                final[member] = _find_final_observation(infos, member, previous[member])
            described[member] = _describe_end(infos, member)
            if self._autoreset is AutoresetMode.NEXT_STEP:
                described[member] = {**described[member], "is_active": False}
        return final, np.asarray(rewards).tolist(), terminated.tolist(), truncated.tolist(), described

    def begin_episodes(self, agents: Sequence[int]) -> list[Any]:
        """Return what members see first in their next episode.

        Args:
            agents: All members whose episode the latest step ended.
        """
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

    def _join(self, actions: Sequence[Any]) -> Any:
        batch: Any = create_empty_array(self.action_space, self.num_agents)
        return concatenate(self.action_space, actions, batch)

    def _split(self, observations: Any) -> list[Any]:
        # Copied: the vector may write the next observations where these are.
        return list(iterate(self._batched_observations, copy.deepcopy(observations)))

    def _describe(self, infos: Any) -> list[Any]:
        if not isinstance(infos, Mapping):
            return list(infos)
        if "is_active" in infos:
            return [{"is_active": bool(is_active)} for is_active in infos["is_active"]]
        return [{}] * self.num_agents


def _read_num_members(env: Any, name: str) -> int:
    inner = getattr(env, "unwrapped", env)
    attributes = ("num_envs",) if isinstance(env, VectorEnv) else ("num_agents", "num_envs")
    found = [getattr(each, attribute, None) for attribute in attributes for each in (env, inner)]
    num_members = next((each for each in found if each is not None), None)
    if not isinstance(num_members, int | np.integer) or num_members < 2:
        raise EnvContractError(
            f"environment {name} with --batched_sampling=True: it has to be a vector of 2 environments or more, which "
            f"says how many as num_envs or num_agents, and has {num_members!r}; leave the flag out for any other"
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
