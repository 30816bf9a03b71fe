"""Owns the one view of an environment that sampling has: lists of agents, dict observations, errors with a name.

A single-agent environment is a multi-agent one with one agent; there is no second code path.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sample_profiler.envs.attribution import checks_contract_on_error
from sample_profiler.envs.contract import (
    EnvSpec,
    check_begun_episodes,
    check_reset_result,
    check_step_result,
    close_env,
    only_number,
    read_episode_statistics,
)
from sample_profiler.envs.forks import GENERATION, copies_ended, end_copy
from sample_profiler.envs.methods import find_listeners, find_method, training_info
from sample_profiler.envs.observations import ObservationReader, Observations
from sample_profiler.envs.vectors.stepping import StepsVectors
from sample_profiler.envs.vectors.vector_agents import VectorAgents
from sample_profiler.errors import FROM_OUTSIDE, EnvContractError, EnvError, describe_error
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.spaces import (
    ACTION_MASK_KEY,
    action_batch_converter,
    action_converter,
    draw_action,
    space_of_agent,
)

__all__ = ["AgentsEnv"]

Actions = npt.NDArray[Any] | Sequence[npt.NDArray[Any]]
"""Of all agents: numbers of each."""

# Types of rewards that are taken as they are; the one number of most others is to be found first.
_NUMBERS = frozenset((float, int, bool, np.float64, np.float32, np.int64, np.int32))


class AgentsEnv(StepsVectors):
    """An environment of `num_agents` agents.

    Args:
        make: builds the environment proper.
        spec: what the environment is expected to be like.
        name: of the environment, for errors.
        index: over the whole run, for errors.
        seed: of its first reset and of `random_actions`.

    Attributes:
        num_agents: of the environment.
        index: of the environment, over the whole run.
        ends_apart: agents end their episodes one by one, not all together.
        begin_infos: what the latest `reset` said of each agent; nothing of a single one, who has a part in every step.

    Raises:
        EnvError: the environment's constructor raised; so do `reset` and `step` when the environment does.
        EnvContractError: from the first `reset` and `step`, and from those that end the first episode and begin the
            second: what they returned is not what the spaces say; from any: they returned what cannot be read, or an
            observation outside of its Discrete or MultiDiscrete space, which no network can take.
    """

    def __init__(self, make: Callable[[], Any], spec: EnvSpec, name: str, index: int, seed: int) -> None:
        self.num_agents = spec.num_agents
        self.index = index
        self._title = f"environment {index} ({name})"
        super().__init__()
        with self._named("its constructor"):
            self._env = make()
            self._listeners = find_listeners(self._env)
        self.begin_infos: list[Mapping[str, Any]] = [{}] * spec.num_agents
        self.ends_apart = callable(getattr(self._env, "begin_episodes", None))
        self._seed: int | None = seed
        of_kinds = spec.of_kinds()
        action_spaces = copy.deepcopy([each.action_space for each in of_kinds])  # seeded, and the spec is shared
        for space in action_spaces:
            space.seed(seed)
        self._action_spaces = [action_spaces[kind] for kind in spec.kinds]
        converters = [action_converter(space) for space in action_spaces]
        self._to_action = converters[0]
        self._to_action_of = [converters[kind] for kind in spec.kinds]
        self._to_actions = action_batch_converter(spec.action_space)
        self._spec = spec
        self._name = name
        self._is_step_checked = False
        self._is_end_checked = False
        self._num_begins_to_check = 2
        # What its methods returned last, in which to look for the cause when somebody cannot make sense of it.
        self._returned: dict[str, Any] = {}
        readers = [
            ObservationReader(space_of_agent(self._env.observation_space, spec.kinds.index(kind)), each, self._title)
            for kind, each in enumerate(of_kinds)
        ]
        self._observations = readers[0]
        # Of each agent, where these have spaces of their own.
        self._readers = [readers[kind] for kind in spec.kinds] if len(readers) > 1 else []

    @profile_range("AgentsEnv.reset")
    @checks_contract_on_error
    def reset(self) -> Observations:
        """Begin an episode and return the first observation of each agent."""
        with self._named("reset"):
            result = self._env.reset() if self._seed is None else self._env.reset(seed=self._seed)
        self._returned["reset"] = result
        self._check_begin("reset")
        self._seed = None
        observations, infos = result
        if self.num_agents == 1:
            return self._observations.as_dicts([observations], "reset")
        self.begin_infos = list(infos)
        return self._as_dicts(observations, "reset", range(self.num_agents))

    @profile_range("AgentsEnv.step")
    def step(self, actions: Actions) -> tuple[Observations, list[float], list[bool], list[bool], list[dict[str, Any]]]:
        """Take one step.

        Args:
            actions: `[num_agents, action_width]`; a list of arrays, where agents have action spaces of their own.

        Returns:
            Observations, rewards, terminated, truncated and infos, one of each per agent.
        """
        if self.num_agents == 1:
            result = self._step_env(self._to_action(actions[0]))
        else:
            pairs = zip(self._to_action_of, actions, strict=True)
            result = self._step_env([convert(action) for convert, action in pairs])
        self._returned["step"] = result
        try:  # not `checks_contract_on_error`, as above
            if not self._is_step_checked:
                self._check("step", self._name)
                self._is_step_checked = True
            if self.num_agents == 1:
                observation, reward, terminated, truncated, info = result
                if terminated is not False or truncated is not False or type(reward) is not float:  # else all is plain
                    if type(reward) not in _NUMBERS:
                        reward = only_number(reward)
                    terminated, truncated = _as_flag(terminated), _as_flag(truncated)
                    if (terminated or truncated) and not self._is_end_checked:
                        self._check_end()
                reader = self._observations
                if reader.flatten is not None:
                    observation = reader.flatten(observation)
                if reader.ranges:
                    reader.check_ranges([observation], "step")
                return [observation], [reward], [terminated], [truncated], [info]
            observations, rewards, ends, cuts, infos = result
            rewards, ends, cuts = (self._by_agent(values) for values in (rewards, ends, cuts))
            ends, cuts = _as_flags(ends), _as_flags(cuts)
            if not _NUMBERS.issuperset(map(type, rewards)):
                rewards = list(map(only_number, rewards))
            if not self._is_end_checked and (True in ends or True in cuts):
                self._check_end()
            told = self._as_dicts(observations, "step", range(self.num_agents))
            return told, rewards, ends, cuts, list(infos)
        except EnvContractError:
            raise
        except Exception:
            self.check_returned()
            raise

    def ended_agents(
        self, terminated: Sequence[bool], truncated: Sequence[bool], infos: Sequence[Mapping[str, Any]]
    ) -> Sequence[int]:
        """Return whose episodes a step has ended: of agents that end together, all or none.

        Args:
            terminated: of each agent, as the step returned it.
            truncated: of each agent, as the step returned it.
            infos: of each agent, as the step returned it.

        Raises:
            EnvContractError: an agent has ended while others go on, and is still active.
        """
        ended = [agent for agent, ends in enumerate(zip(terminated, truncated, strict=True)) if any(ends)]
        if self.ends_apart or len(ended) == self.num_agents:
            return ended
        for agent in ended:
            if infos[agent].get("is_active", True):
                raise EnvContractError(
                    f"{self._title}: agent {agent} has ended its episode while others go on, and is still active: all "
                    "agents end together, so return terminated or truncated for all of them; or let the infos of one "
                    "that has ended before say is_active: False until then; or, where each begins episodes of its own, "
                    "offer begin_episodes(agents)"
                )
        return ()

    @checks_contract_on_error
    def begin_episodes(self, agents: Sequence[int]) -> Observations:
        """Begin the next episode of agents whose episode has ended, and return the first observation of each.

        Args:
            agents: what `ended_agents` returned of the latest step.
        """
        if not self.ends_apart:
            return self.reset()
        with self._named("begin_episodes"):
            observations = self._env.begin_episodes(agents)
        self._returned["begin_episodes"] = (observations, agents)
        self._check_begin("begin_episodes")
        return self._as_dicts(observations, "begin_episodes", agents)

    def episode_statistics(self, info: Mapping[str, Any]) -> dict[str, float]:
        """Return what the last info of an episode tells of it, by name.

        Raises:
            EnvContractError: it is not what can be averaged.
        """
        return read_episode_statistics(info, self._title)

    def random_actions(self, observations: Observations) -> Actions:
        """Draw an action for each agent, as its action space samples them.

        Args:
            observations: of each agent, in which its action mask is, if it has one.
        """
        pairs = zip(self._action_spaces, observations, strict=True)
        drawn = [draw_action(space, each.get(ACTION_MASK_KEY)) for space, each in pairs]
        return drawn if self._readers else np.stack(drawn)

    @property
    def wants_training_info(self) -> bool:
        """Whether anything in the environment wants to be told how far the training is."""
        return bool(self._listeners)

    def set_training_info(self, num_frames: int) -> None:
        """Tell the environment how far the training is: its own `set_training_info`, through all wrappers.

        Args:
            num_frames: that the policy has been trained on.

        Raises:
            EnvError: its own `set_training_info` raised.
        """
        with self._named("set_training_info"):
            for listener in self._listeners:
                listener(training_info(num_frames))

    def render(self) -> Any:
        """Return what the environment renders: a picture `[height, width, 3]` in the mode "rgb_array".

        Raises:
            EnvError: the environment's own `render` raised.
        """
        with self._named("render"):
            return self._env.render()

    def call(self, method: str, arguments: Sequence[Any]) -> None:
        """Call a method of the environment, through its wrappers; what it returns is dropped.

        Raises:
            EnvContractError: it has no such method.
            EnvError: it raised in it.
        """
        call = find_method(self._env, method)
        if call is None:
            raise EnvContractError(
                f"{self._title} has no method {method}(): neither the environment itself nor a wrapper around it"
            )
        with self._named(method):
            call(*arguments)

    @property
    def offers_state(self) -> bool:
        """Whether the environment can be put back to where it was: its own `get_state()` and `set_state(state)`."""
        return all(callable(getattr(self._env, method, None)) for method in ("get_state", "set_state"))

    def get_state(self) -> Any:
        """Return all that the environment's further course depends on, its random generators included.

        Raises:
            EnvError: its own `get_state` raised.
        """
        with self._named("get_state"):
            return self._env.get_state()

    def set_state(self, state: Any) -> None:
        """Put the environment back to a state, instead of its first reset.

        Raises:
            EnvError: its own `set_state` raised.
        """
        with self._named("set_state"):
            self._env.set_state(state)
        self._seed = None

    def close(self) -> None:
        """End the environment; an error on the way out is told, and ends nothing."""
        if self._env is not None:
            close_env(self._env, self._title)
            self._env = None

    def check_returned(self) -> None:
        """Look for a broken contract in what the environment returned last; for those who failed to make sense of it.

        Raises:
            EnvContractError: there it is.
        """
        for where in self._returned:
            self._check(where, f"{self.index} ({self._name})")

    def _by_agent(self, values: Any) -> list[Any]:
        """Return a list of what is one of each agent.

        Raises:
            ValueError: it is not; `check_returned` says it in words.
        """
        result = list(values)
        if len(result) != self.num_agents or isinstance(values, Mapping):  # which would be a list of its keys
            raise ValueError("not one of each agent")
        return result

    def _as_dicts(self, observations: Any, where: str, agents: Sequence[int]) -> Observations:
        """Return observations of agents as flat dictionaries; arguments are those of `ObservationReader.as_dicts`."""
        if not self._readers:
            return self._observations.as_dicts(observations, where)
        pairs = zip(agents, observations, strict=True)
        return [self._readers[agent].as_dicts([observation], where)[0] for agent, observation in pairs]

    def _step_env(self, action: Any, method: str = "") -> Any:
        """Have the environment take a step, by a method of vectors if not by its own; not in `_named`: it is hot."""
        generation = GENERATION[0]
        try:
            result = getattr(self._env, method)(action) if method else self._env.step(action)
        except BaseException as error:
            if GENERATION[0] != generation:
                end_copy(error)
            if isinstance(error, (EnvContractError, *FROM_OUTSIDE)):  # the first is of a vector
                raise
            raise EnvError(f"{self._title} raised in step: {describe_error(error)}") from error
        if GENERATION[0] != generation:
            end_copy()
        return result

    def _check_begin(self, where: str) -> None:
        """Check what the first episode begins with, and the one after it: other code may begin that."""
        if self._num_begins_to_check:
            self._check(where, self._name)
            self._num_begins_to_check -= 1

    def _check_end(self) -> None:
        """Check the first step that ends an episode: final observations may be made by other code, too."""
        self._check("step", self._name)
        self._is_end_checked = True

    def _check(self, where: str, name: str) -> None:
        """Check what a method returned last against the contract."""
        returned = self._returned[where]
        if isinstance(self._env, VectorAgents) and callable(returned):  # arrays, of which there are lists if need be
            returned = returned()
        agents: Sequence[int] = range(self.num_agents)
        if where == "begin_episodes":
            observations, agents = returned
            check_begun_episodes(observations, agents, self._spec, name)
        else:
            check = check_reset_result if where == "reset" else check_step_result
            check(returned, self._spec, name)
            observations = [returned[0]] if self.num_agents == 1 else returned[0]
        for agent, observation in zip(agents, observations, strict=True):
            reader = self._readers[agent] if self._readers else self._observations
            if reader.has_one_key and isinstance(observation, Mapping):
                # Its one entry has the name that other observations are found under, so nothing else tells them apart.
                raise EnvContractError(
                    f"environment {name}: {where}() returned a dictionary as observation; observation_space is "
                    f"{space_of_agent(self._env.observation_space, agent)}"
                )

    @contextlib.contextmanager
    def _named(self, where: str) -> Iterator[None]:
        try:
            with copies_ended():
                yield
        except (EnvContractError, *FROM_OUTSIDE):  # the first is of a vector
            raise
        except BaseException as error:
            raise EnvError(f"{self._title} raised in {where}: {describe_error(error)}") from error


def _as_flag(value: Any) -> bool:
    """Return a flag as a bool of Python: with numpy's, all that follows takes much longer.

    Raises:
        ValueError: it is none, such as a count of what ends an episode; `check_returned` says it in words.
    """
    if type(value) is bool:
        return value
    if type(value) is not np.bool_:
        value = only_number(value)
        if value not in (0, 1):
            raise ValueError("no flag")
    return bool(value)


def _as_flags(values: list[Any]) -> list[bool]:
    return values if {bool}.issuperset(map(type, values)) else list(map(_as_flag, values))
