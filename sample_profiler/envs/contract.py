"""What an environment has to be, and checks that name what is wrong with one.

Single agent: gymnasium's interface. ``reset(seed=..., options=...) -> (observation, info)``, ``step(action) ->
(observation, reward, terminated, truncated, info)``.

Several agents: an attribute ``num_agents`` above 1, one observation space and one action space for all agents, or,
where these differ, lists of them with one for each agent, and lists with one entry per agent: ``reset() ->
(observations, infos)``, ``step(actions) -> (observations, rewards, terminated, truncated, infos)``. All agents end an
episode together: in its last step each is terminated or truncated. An agent may be before, if its infos say
``is_active: False`` from then on. In fact an agent has no part in what follows any info, of ``step`` or ``reset``, that
says so, until one says otherwise: such steps are none of its own (:mod:`sample_profiler.ppo.own_steps`), and it may
miss any, the first ones of an episode included. Where each ends episodes of its own, ``begin_episodes(agents)`` returns
the first observation of the next one of each agent that it is given; it is called after each step that ended some. A
vector of environments is adapted to that by :mod:`sample_profiler.envs.vectors.vector_agents`.

A reward is a number, and a flag True or False: of Python, of numpy, or an array or tensor of shape () or (1,), which
counts as the one number in it. A list of one is none.

An observation is an array, a number, or a dictionary or tuple of them, which may be nested. When an episode ends,
``step`` returns its *final* observation; the next ``reset`` returns the first of the next episode. Environments do not
reset themselves.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from sample_profiler.envs.forks import copies_ended
from sample_profiler.errors import FROM_OUTSIDE, EnvContractError, EnvError, SampleProfilerError, describe_error
from sample_profiler.repeated_warnings import is_logged
from sample_profiler.spaces import (
    AgentSpaces,
    EnvSpec,
    as_dict_space,
    check_action_space,
    check_observation_space,
    flatten_observation,
    is_in_range,
    is_lossless,
    plain_space,
    value_range,
)

__all__ = [
    "EnvPlacement",
    "EnvSpec",
    "check_begun_episodes",
    "check_reset_pair",
    "check_reset_result",
    "check_step_result",
    "close_env",
    "describe_range",
    "env_probed",
    "inspect_env",
    "name_of_env",
    "only_number",
    "read_episode_statistics",
]

logger = logging.getLogger(__name__)

_MOST_AGENTS = 1_000_000
_numbers_of_raised = itertools.count(1)  # of close, of all environments of this process


@dataclass(frozen=True, kw_only=True)
class EnvPlacement:
    """Where an environment runs.

    Attributes:
        worker_index: Number of its rollout worker.
        vector_index: Number of the environment within its worker.
        env_id: Number of the environment within the run.
    """

    worker_index: int
    vector_index: int
    env_id: int


@contextlib.contextmanager
def env_probed(make: Callable[[], Any], name: str) -> Iterator[Any]:
    """Make an environment to look at it, and close it.

    Args:
        make: Makes it.
        name: Its name in error messages.

    Raises:
        EnvError: Its constructor raised; errors of this package stay what they are.
    """
    try:
        with copies_ended():
            env = make()
    except (SampleProfilerError, *FROM_OUTSIDE):
        raise
    except BaseException as error:
        raise EnvError(f"the environment {name} raised in its constructor: {describe_error(error)}") from error
    try:
        yield env
    finally:
        close_env(env, f"The environment {name}")


def close_env(env: Any, title: str) -> None:
    """Close an environment; an error on the way out is told, and ends nothing.

    Args:
        env: The environment.
        title: What it is called in the log.
    """
    try:
        with copies_ended():
            env.close()
    except FROM_OUTSIDE:
        raise
    except BaseException as error:
        number = next(_numbers_of_raised)
        if is_logged(number):
            logger.warning("%s raised in close: %s (number %d of this process)", title, describe_error(error), number)


def inspect_env(env: Any, name: str | None = None) -> EnvSpec:
    """Read what an environment says about itself, without resetting it.

    Args:
        env: The environment.
        name: Its name in error messages; by default what the environment calls itself.

    Raises:
        EnvContractError: It does not have what an environment needs.
    """
    name = name or name_of_env(env)
    if isinstance(env, VectorEnv):
        raise EnvContractError(
            f"environment {name}: {type(env).__name__} is a vector of environments: add --batched_sampling=True, or "
            "make a single one"
        )
    for method in ("reset", "step"):
        if not callable(getattr(env, method, None)):
            raise EnvContractError(
                f"environment {name}: {type(env).__name__} has no method {method}(); an environment has gymnasium's "
                "reset(), step(), observation_space and action_space"
            )
    num_agents = _read_num_agents(env, name)
    seen = _read_spaces(env, "observation_space", num_agents, name, check_observation_space)
    taken = _read_spaces(env, "action_space", num_agents, name, check_action_space)
    agents = [
        AgentSpaces(as_dict_space(plain_space(seen[agent % len(seen)])), plain_space(taken[agent % len(taken)]))
        for agent in range(max(len(seen), len(taken)))
    ]
    are_equal = all(each == agents[0] for each in agents)
    return EnvSpec(
        observation_space=agents[0].observation_space,
        action_space=agents[0].action_space,
        num_agents=num_agents,
        own_spaces=() if are_equal else tuple(agents),
    )


def check_reset_result(result: Any, spec: EnvSpec, name: str) -> None:
    """Check what ``reset`` returned against the spaces; meant for the first resets of each environment.

    Args:
        result: What ``reset`` returned.
        spec: From :func:`inspect_env`.
        name: The environment's name, for error messages.

    Raises:
        EnvContractError: Not a pair of observation and info, or an observation that is not of its space.
    """
    check_reset_pair(result, name)
    _check_observations(result[0], spec, f"environment {name}: reset()")
    _check_infos(result[1], spec, f"environment {name}: reset()")


def check_reset_pair(result: Any, name: str) -> None:
    """Check that what ``reset`` returned is a pair; arguments as of :func:`check_reset_result`.

    Raises:
        EnvContractError: It is none.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        raise EnvContractError(
            f"environment {name}: reset() returned {_describe(result)}; it returns (observation, info): an environment "
            "written for gym before 0.26 needs to be adapted"
        )


def check_step_result(result: Any, spec: EnvSpec, name: str) -> None:
    """Check what ``step`` returned against the spaces; meant for the first steps of each environment.

    Args:
        result: What ``step`` returned.
        spec: From :func:`inspect_env`.
        name: The environment's name, for error messages.

    Raises:
        EnvContractError: Not the five values of a step, or an observation that is not of its space.
    """
    if not isinstance(result, tuple) or len(result) != 5:
        raise EnvContractError(
            f"environment {name}: step() returned {_describe(result)}; it returns (observation, reward, terminated, "
            "truncated, info): an environment written for gym before 0.26 needs to be adapted"
        )
    observations, rewards, terminated, truncated, infos = result
    _check_observations(observations, spec, f"environment {name}: step()")
    _check_infos(infos, spec, f"environment {name}: step()")
    for what, value in (("reward", rewards), ("terminated", terminated), ("truncated", truncated)):
        _check_outcome(value, spec, f"environment {name}: step() returned {what}", is_flag=what != "reward")


def check_begun_episodes(observations: Any, agents: Sequence[int], spec: EnvSpec, name: str) -> None:
    """Check what ``begin_episodes`` returned against the spaces; meant for its first call.

    Args:
        observations: What it returned.
        agents: That it was given.
        spec: From :func:`inspect_env`.
        name: The environment's name, for error messages.

    Raises:
        EnvContractError: Not one observation for each of these agents, or one that is not of its space.
    """
    where = f"environment {name}: begin_episodes()"
    if not isinstance(observations, Sequence | np.ndarray) or len(observations) != len(agents):
        raise EnvContractError(
            f"{where} returned {_describe(observations)}; it was given {len(agents)} agents and returns a list with "
            "the first observation of each"
        )
    for agent, observation in zip(agents, observations, strict=True):
        _check_observation(observation, spec.of_agent(agent), where)


def read_episode_statistics(info: Mapping[str, Any], title: str) -> dict[str, float]:
    """Return what the last info of an episode tells of it by name: ``episode_extra_stats`` and ``true_objective``.

    Args:
        info: The last one.
        title: What the environment is called in error messages.

    Raises:
        EnvContractError: They are not numbers by name.
    """
    told = info.get("episode_extra_stats", {})
    if not isinstance(told, Mapping):
        raise EnvContractError(f"{title}: episode_extra_stats is {_describe(told)}; it is a dictionary of numbers")
    statistics = {
        str(name): _read_number(value, f"{title}: episode_extra_stats[{name!r}]") for name, value in told.items()
    }
    if (objective := info.get("true_objective")) is not None:
        statistics["true_objective"] = _read_number(objective, f"{title}: true_objective")
    return statistics


def only_number(value: Any) -> Any:
    """Return the one number of an array or tensor of shape () or (1,); anything else as it is.

    Args:
        value: A reward or a flag, as an environment returned it.
    """
    if getattr(value, "shape", None) in ((), (1,)) and callable(item := getattr(value, "item", None)):
        return item()
    return value


def _read_number(value: Any, where: str) -> float:
    try:
        return float(only_number(value))
    except OverflowError:  # of a whole number without bounds
        return math.inf if value > 0 else -math.inf
    except Exception:  # texts, arrays, and what else people put there
        raise EnvContractError(
            f"{where} of an episode's last info is {_describe(value)}; it is a number: leave out what is none"
        ) from None


def _check_outcome(value: Any, spec: EnvSpec, where: str, *, is_flag: bool) -> None:
    """Check what is one value for each agent: a reward, or whether the episode ended."""
    shape = (spec.num_agents,) if spec.num_agents > 1 else ()
    are_several = spec.num_agents > 1 and (isinstance(value, Sequence) or bool(getattr(value, "shape", None)))
    array = _as_array(list(map(only_number, value)) if are_several else only_number(value), where)
    if array.shape != shape:
        expected = f"a list with one entry for each of {spec.num_agents} agents" if shape else "a single value"
        raise EnvContractError(f"{where} {_describe(value)}; it is {expected}")
    # Whole numbers stand for rewards, and 0 and 1 for flags; True is a reward of 1 to some environments.
    if array.dtype.kind not in "biuf" or (is_flag and not np.isin(array, (0, 1)).all()):
        raise EnvContractError(f"{where} {_describe(value)}; it is {'True or False' if is_flag else 'a number'}")


def name_of_env(env: Any) -> str:
    """Return what an environment calls itself: the id of its spec, or the name of its class."""
    name = getattr(getattr(env, "spec", None), "id", None)
    return name if isinstance(name, str) else type(env).__name__


def _read_spaces(
    env: Any, attribute: str, num_agents: int, name: str, check: Callable[[gymnasium.Space[Any], str, str], None]
) -> list[gymnasium.Space[Any]]:
    """Return the space of all agents, or the spaces of each."""
    try:
        space = getattr(env, attribute, None)
    except Exception as error:
        raise EnvContractError(
            f"environment {name}: {attribute} raised {describe_error(error)}; it has to be set in the constructor"
        ) from error
    if isinstance(space, gymnasium.Space):
        check(space, attribute, name)
        return [space]
    own = space if isinstance(space, list | tuple) else ()
    if len(own) != num_agents or not all(isinstance(each, gymnasium.Space) for each in own):
        what = "is missing" if space is None else f"is {_describe(space)}"
        raise EnvContractError(
            f"environment {name}: {attribute} {what}; it has to be a space of gymnasium (not of the older gym), set in "
            f"the constructor, or a list with one for each agent, of whom there {_count_agents(num_agents)}"
        )
    for agent, each in enumerate(own):
        check(each, f"{attribute}[{agent}]", name)
    return list(own)


def _count_agents(num_agents: int) -> str:
    return "is one" if num_agents == 1 else f"are {num_agents}"


def _read_num_agents(env: Any, name: str) -> int:
    # gymnasium's wrappers do not pass on attributes of the environment inside.
    inner = getattr(env, "unwrapped", env)
    try:
        num_agents = getattr(env, "num_agents", getattr(inner, "num_agents", 1))
    except Exception as error:
        raise EnvContractError(f"environment {name}: num_agents raised {describe_error(error)}") from error
    if isinstance(num_agents, bool) or not isinstance(num_agents, int | np.integer) or num_agents < 1:
        raise EnvContractError(
            f"environment {name}: num_agents is {num_agents!r}; it is the number of agents, 1 or more, and may be left "
            "out for one"
        )
    if num_agents > _MOST_AGENTS:
        raise EnvContractError(
            f"environment {name}: num_agents is {num_agents:,}; an environment may have at most {_MOST_AGENTS:,} agents"
        )
    return int(num_agents)


def _check_observations(observations: Any, spec: EnvSpec, where: str) -> None:
    if spec.num_agents == 1:
        _check_observation(observations, spec, where)
        return
    _check_agents(observations, spec, f"{where} returned observations")
    for agent, observation in enumerate(observations):
        _check_observation(observation, spec.of_agent(agent), f"{where}, agent {agent}")


def _check_infos(infos: Any, spec: EnvSpec, where: str) -> None:
    if spec.num_agents > 1:
        _check_agents(infos, spec, f"{where} returned infos")
    for info in infos if spec.num_agents > 1 else [infos]:
        if not isinstance(info, Mapping):
            raise EnvContractError(f"{where} returned info {_describe(info)}; it is a dictionary, empty if need be")


def _check_agents(values: Any, spec: EnvSpec, where: str) -> None:
    if not isinstance(values, Sequence | np.ndarray) or len(values) != spec.num_agents:
        raise EnvContractError(
            f"{where} {_describe(values)}; with {spec.num_agents} agents that is a list with one entry for each"
        )


def _check_observation(observation: Any, spec: EnvSpec, where: str) -> None:
    items = flatten_observation(observation, spec.observation_space)
    if items.keys() != spec.observation_space.keys():
        raise EnvContractError(
            f"{where} returned an observation of {sorted(map(str, items))}; observation_space has "
            f"{sorted(map(str, spec.observation_space))}"
        )
    for key, space in spec.observation_space.items():
        _check_value(items[key], space, f"{where} returned observation {key!r}")


def _check_value(value: Any, space: gymnasium.Space[Any], where: str) -> None:
    array = _as_array(value, where)
    if array.shape != space.shape:
        raise EnvContractError(f"{where} of shape {array.shape}; observation_space says {space.shape}")
    if space.dtype is None or not is_lossless(array, space.dtype):
        raise EnvContractError(f"{where} of type {array.dtype}; observation_space says {space.dtype}")
    if (bounds := value_range(space)) and not is_in_range(array, *bounds):
        raise EnvContractError(f"{where} {describe_range(array, *bounds)}")


def describe_range(value: Any, first: Any, last: Any) -> str:
    """Say which values an observation may have instead of one that it has.

    Args:
        value: A number, or an array of them.
        first: Of the range, or of each entry's.
        last: Of the range, or of each entry's.
    """
    return f"{value!s:.60}; observation_space says {first!s:.60} to {last!s:.60}"


def _as_array(value: Any, where: str) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(value)
    except Exception as error:  # a list of lists of several lengths, or an object that does as it likes
        raise EnvContractError(f"{where} {_describe(value)}; it makes no array: {error}") from None


def _describe(value: Any) -> str:
    """Say what a value is without printing all of it."""
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{' '.join(repr(value).split()):.60} of type {type(value).__name__}"
