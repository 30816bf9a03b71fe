"""Owns the adapters around environments that Sample Factory's code makes: agents that begin anew by themselves.

There an environment of several agents returns lists, or dictionaries of arrays with an entry for each agent, and with
the step that ends an episode the first observation of the next one. The final observation is not known then; the one
before it stands for it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from sample_profiler.compat.environments.casting import DeclaredTypes
from sample_profiler.compat.environments.statistics import tell_in_numbers
from sample_profiler.envs.contract import only_number
from sample_profiler.envs.vectors.vector_agents import VectorAgents

__all__ = ["WholeEpisodes", "Wrapped", "as_agents", "get_multiagent_info", "is_multiagent", "num_agents_of"]

_STEP_SIZE = 5


def as_agents(env: Any, name: str, *, batched: bool = False) -> Any:
    """Return an environment by the contract of this package.

    Args:
        env: What a function written for Sample Factory returned.
        name: Its name in error messages.
        batched: `--batched_sampling`: several agents are given arrays of actions, whatever they return.
    """
    if isinstance(env, VectorEnv):
        return env
    if not is_multiagent(env):
        env = env if _takes_seed(env.reset) else _Seedless(env)
        if isinstance(getattr(env, "action_space", None), spaces.Tuple):
            env = _GivenParts(env)
        types = DeclaredTypes(getattr(env, "observation_space", None))
        return _InNumbers(_AsDeclared(env, types) if types else env)
    if num_agents_of(env) == 1:
        return _OnlyAgent(env)
    own = any(isinstance(space, list | tuple) for space in (env.observation_space, env.action_space))
    return _DifferentAgents(env) if own else _SelfResettingAgents(env, name, batched)


def num_agents_of(env: Any) -> int:
    """Return the number of agents of an environment, which may be wrapped; 1 unless it says otherwise."""
    return int(_read(env, "num_agents", 1))


def is_multiagent(env: Any) -> bool:
    """Tell whether observations, rewards and so on have an entry for each agent, be it a single one."""
    return bool(_read(env, "is_multiagent", num_agents_of(env) > 1))


def get_multiagent_info(env: Any) -> tuple[bool, int]:
    """Return whether there may be several agents, and how many there are."""
    return is_multiagent(env), num_agents_of(env)


def _read(env: Any, name: str, default: Any) -> Any:
    # gymnasium's wrappers do not pass on attributes of the environment inside.
    return getattr(env, name, getattr(getattr(env, "unwrapped", env), name, default))


def _takes_seed(reset: Callable[..., Any]) -> bool:
    try:
        inspect.signature(reset).bind(seed=0)
    except TypeError:
        return False
    except ValueError:  # of a function without a signature
        return True
    return True


class Wrapped:
    """Passes on whatever it is asked for.

    Args:
        env: That is wrapped.
    """

    def __init__(self, env: Any) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_env":
            raise AttributeError(name)
        return getattr(self._env, name)


class WholeEpisodes(Wrapped):
    """One agent whose episodes may be pieces, such as lives of a game: the return of a whole one is its objective.

    Gymnasium's `RecordEpisodeStatistics` tells it, in the info `episode` of the step that ends a whole one.
    """

    def step(self, action: Any) -> Any:
        """Take a step."""
        result = self._env.step(action)
        if "episode" in result[-1]:
            result[-1].setdefault("true_objective", only_number(result[-1]["episode"]["r"]))
        return result


class _Seedless(Wrapped):
    """One agent whose `reset` takes no seed."""

    def reset(self, **_keywords: Any) -> Any:
        """Begin an episode."""
        return self._env.reset()


class _GivenParts(Wrapped):
    """One agent whose action has several parts."""

    def step(self, action: Any) -> Any:
        """Take a step."""
        return self._env.step(_as_parts(action))


def _as_parts(action: Any) -> Any:
    """Return an action of several parts as one that may be changed: numbers as an array, others as a list."""
    if not isinstance(action, tuple):
        return action
    return np.array(action, np.int32) if all(np.ndim(part) == 0 for part in action) else list(action)


class _InNumbers(Wrapped):
    """One agent, of whose episodes numbers are told."""

    def step(self, action: Any) -> Any:
        """Take a step."""
        result = self._env.step(action)
        if isinstance(result, tuple) and len(result) == _STEP_SIZE and (result[2] or result[3]):
            tell_in_numbers(result[4])
        return result


class _AsDeclared(Wrapped):
    """One agent whose observations have the types that its space says.

    Args:
        env: Of one agent.
        types: Of its observations.
    """

    def __init__(self, env: Any, types: DeclaredTypes) -> None:
        super().__init__(env)
        self._observed = types.of_one

    def reset(self, **keywords: Any) -> Any:
        """Begin an episode."""
        return _with_observation(self._env.reset(**keywords), self._observed)

    def step(self, action: Any) -> Any:
        """Take a step."""
        return _with_observation(self._env.step(action), self._observed)


def _tell_all_in_numbers(infos: Any) -> None:
    if isinstance(infos, list | tuple):
        for info in infos:
            tell_in_numbers(info)


def _with_observation(result: Any, change: Callable[[Any], Any]) -> Any:
    """Change the observation of a result; one that has none is what it was, for whoever checks it."""
    if not isinstance(result, tuple) or not result:
        return result
    return change(result[0]), *result[1:]


class _OnlyAgent(Wrapped):
    """One agent, of an environment that returns lists and arrays of one entry."""

    num_agents = 1
    is_multiagent = False

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._observed = DeclaredTypes(_space_of(env, 0)).of_one

    def reset(self, **keywords: Any) -> Any:
        """Begin an episode."""
        observations, infos = self._env.reset(**(keywords if _takes_seed(self._env.reset) else {}))
        return self._observed(_first(observations)), _first(infos) if isinstance(infos, Sequence) else infos

    def step(self, action: Any) -> Any:
        """Take a step."""
        observations, *others = self._env.step([_as_parts(action)])
        _tell_all_in_numbers(others[-1])
        observed = self._observed(_first(observations))
        return observed, *(each if isinstance(each, Mapping) else each[0] for each in others)


def _space_of(env: Any, agent: int) -> Any:
    """Return the space of what an agent observes; None: there is none, of which the check of the contract tells."""
    space = getattr(env, "observation_space", None)
    if not isinstance(space, list | tuple):
        return space
    return space[agent] if agent < len(space) else None


def _first(batch: Any) -> Any:
    return {key: values[0] for key, values in batch.items()} if isinstance(batch, Mapping) else batch[0]


class _SelfResettingAgents(VectorAgents):
    """Several agents, each of which begins its next episode within the step that ends one."""

    def __init__(self, env: Any, name: str, batched: bool) -> None:
        super().__init__(_AsVector(env), name)
        self._is_given_arrays = batched

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._env, name)

    @property
    def _takes_lists(self) -> bool:
        return bool(self._env.are_lists) and not self._is_given_arrays

    def _reset(self, **keywords: Any) -> Any:
        return super()._reset(**(keywords if _takes_seed(self._env.reset) else {}))


class _DifferentAgents(Wrapped):
    """Several agents with spaces of their own, each of which begins its next episode within the step that ends one."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.num_agents = num_agents_of(env)
        self._types = [DeclaredTypes(_space_of(env, agent)) for agent in range(self.num_agents)]
        self._latest: list[Any] = []

    def reset(self, **keywords: Any) -> Any:
        """Begin an episode."""
        observations, infos = self._env.reset(**(keywords if _takes_seed(self._env.reset) else {}))
        observations = self._observed(observations)
        self._latest = copy.deepcopy(observations)
        return observations, infos if isinstance(infos, Sequence) and infos else [{}] * self.num_agents

    def step(self, actions: Sequence[Any]) -> Any:
        """Take a step; of who has ended an episode the observation before stands for the final one."""
        observations, rewards, terminated, truncated, infos = self._env.step([*map(_as_parts, actions)])
        _tell_all_in_numbers(infos)
        before, self._latest = self._latest, copy.deepcopy(self._observed(observations))
        final = [
            previous if ends or cut else latest
            for previous, latest, ends, cut in zip(before, self._latest, terminated, truncated, strict=True)
        ]
        return final, rewards, terminated, truncated, infos

    def begin_episodes(self, agents: Sequence[int]) -> list[Any]:
        """Return what agents see first in the episode that they have begun."""
        return [self._latest[agent] for agent in agents]

    def _observed(self, observations: Any) -> list[Any]:
        if len(observations) != self.num_agents:
            return list(observations)  # the check of the contract says what is wrong with it
        return [types.of_one(each) for types, each in zip(self._types, observations, strict=True)]


class _AsVector(Wrapped):
    """Says when agents begin anew, and remembers how they are told of.

    Actions that are a Tuple come as arrays of its parts; those of Discrete parts alone as the columns of one.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.num_agents = num_agents_of(env)
        self.metadata = {**(getattr(env, "metadata", None) or {}), "autoreset_mode": AutoresetMode.SAME_STEP}
        self.are_lists = False
        self._observed = DeclaredTypes(getattr(env, "observation_space", None)).of_all
        space = env.action_space
        are_parts = isinstance(space, spaces.Tuple)
        self._has_columns = are_parts and all(isinstance(part, spaces.Discrete) for part in space.spaces)
        self.reset = self._reset if _takes_seed(env.reset) else self._reset_unseeded

    def step(self, actions: Any) -> Any:
        """Take a step."""
        if isinstance(actions, tuple):
            actions = _side_by_side(actions) if self._has_columns else list(actions)
        elif isinstance(actions, list):
            actions = [*map(_as_parts, actions)]
        result = self._env.step(actions)
        if isinstance(result, tuple) and len(result) == _STEP_SIZE:
            _tell_all_in_numbers(result[4])
        return _with_observation(result, self._observed)

    def _reset(self, **keywords: Any) -> Any:
        result = self._env.reset(**keywords)
        self.are_lists = isinstance(result, tuple) and isinstance(result[0], list | tuple)
        return _with_observation(result, self._observed)

    def _reset_unseeded(self) -> Any:
        return self._reset()


def _side_by_side(parts: Sequence[Any]) -> Any:
    """Return arrays or tensors `[N]` as the columns of one."""
    if isinstance(parts[0], np.ndarray):
        return np.stack(parts, axis=-1)
    import torch  # whoever has tensors has it

    return torch.stack(list(parts), dim=-1)
