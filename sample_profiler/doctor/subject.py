"""Owns one environment under examination: made, stepped by random actions, closed, and looked at at every call."""

from __future__ import annotations

import copy
import random
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding

from sample_profiler.doctor.checks import ActionGuard, ObservationGuard, ResultChecks
from sample_profiler.doctor.findings import Finding, Findings
from sample_profiler.doctor.measurements import Stopwatch
from sample_profiler.doctor.position import Position
from sample_profiler.doctor.surroundings import Surroundings
from sample_profiler.doctor.values import fingerprint
from sample_profiler.envs.contract import EnvSpec, inspect_env
from sample_profiler.envs.forks import copies_ended
from sample_profiler.envs.methods import find_listeners, training_info
from sample_profiler.envs.vectors.vector_agents import VectorAgents
from sample_profiler.errors import FROM_OUTSIDE, EnvContractError, EnvError
from sample_profiler.spaces import ACTION_MASK_KEY, action_converter, draw_action, flatten_observation

__all__ = ["BrokenError", "Examined", "Step", "Subject"]

_ACTION_SEED = 7
_EXTREME_INTERVAL = 25
_SOME = 20
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
_TRACEBACK_LINES = 6


class BrokenError(Exception):
    """An environment cannot be gone on with; the finding has been made."""


@dataclass(frozen=True)
class Examined:
    """What all environments of an examination share.

    Attributes:
        name: of the environment.
        make: makes one.
        findings: are added to.
        position: is told which method is called.
        surroundings: are looked at after each call.
        stopwatch: measures each call.
    """

    name: str
    make: Callable[[], Any]
    findings: Findings
    position: Position
    surroundings: Surroundings
    stopwatch: Stopwatch


@dataclass(frozen=True)
class Step:
    """What a step came to.

    Attributes:
        fingerprint: of all that an agent is shown.
        reward: of all agents together.
        has_ended: whether the episode ended; of agents that end apart, one of them.
        infos: one of each agent.
        took_ns: how long it took, what of that its thread ran, and what of it it waited for a processor.
    """

    fingerprint: bytes
    reward: float
    has_ended: bool
    infos: Sequence[Any]
    took_ns: tuple[int, int, int]


class Subject:
    """One environment.

    Args:
        examined: what it shares with others.
        seed: of its first reset.
        action_seed: of its random actions.

    Attributes:
        spec: what it says of itself.
        num_steps: taken.
        num_episodes: begun.
        ends_apart: whether its agents end their episodes one by one.
        seen: fingerprint of the latest observations.

    Raises:
        BrokenError: it cannot be made.
    """

    def __init__(self, examined: Examined, seed: int, action_seed: int = _ACTION_SEED) -> None:
        self._examined = examined
        self._seed: int | None = seed
        self.num_steps = self.num_episodes = 0
        self.seen = b""
        self._observations: list[Any] = []
        self._env = self._call("constructor", examined.make, is_often=False)
        try:
            self.spec: EnvSpec = inspect_env(self._env, examined.name)
        except EnvContractError as error:
            text = str(error).removeprefix(f"environment {examined.name}: ")
            what, _, cure = text.partition("; ")
            self._add("error", "contract", what, "seen before the first reset", cure or "see docs/extending.md")
            raise BrokenError from None
        self._checks = ResultChecks(self.spec, examined.name, examined.findings)
        self._guard = None if isinstance(self._env, VectorAgents) else ObservationGuard(examined.findings)
        self._action_guard = ActionGuard(examined.findings)
        self._spaces = copy.deepcopy([each.action_space for each in self.spec.of_kinds()])
        for space in self._spaces:
            space.seed(action_seed)
        self._converters = list(map(action_converter, self._spaces))
        self.ends_apart = callable(getattr(self._env, "begin_episodes", None))
        for tell in find_listeners(self._env):  # a reset may ask how far the training is
            self._call("set_training_info", partial(tell, training_info(0)), is_often=False)

    def reset(self) -> None:
        """Begin an episode, the first one with the seed.

        Raises:
            BrokenError: it raised, or returned what cannot be read.
        """
        options = {} if self._seed is None else {"seed": self._seed}
        self._seed = None
        self.num_episodes += 1
        result = self._watched("reset", lambda: self._env.reset(**options))
        if not self._checks.check_reset(result):
            raise BrokenError
        self._take("reset", result[0] if self.spec.num_agents > 1 else [result[0]])

    def step(self) -> Step:
        """Take a step with random actions, and begin the next episode of agents that begin theirs by themselves.

        Raises:
            BrokenError: it raised, or returned what cannot be read.
        """
        drawn = [self._draw(agent, observation) for agent, observation in enumerate(self._observations)]
        actions = [self._converters[kind](action) for kind, action in zip(self.spec.kinds, drawn, strict=True)]
        action = actions if self.spec.num_agents > 1 else actions[0]
        self._action_guard.hold(action)
        self.num_steps += 1
        result = self._watched("step", lambda: self._env.step(action))
        self._action_guard.check()
        if not self._checks.check_step(result):
            raise BrokenError
        try:
            return self._read(result)
        except (TypeError, ValueError, IndexError, KeyError):  # the finding of its contract says why
            if self._examined.findings.has("contract"):
                raise BrokenError from None
            raise

    def has_choice(self) -> bool:
        """Tell whether there is more than one action; draws some."""
        return any(
            len({fingerprint(convert(draw_action(space, None))) for _ in range(_SOME)}) > 1
            for space, convert in zip(self._spaces, self._converters, strict=True)
        )

    def drawn_seeds(self) -> tuple[object, ...]:
        """Return the seeds of generators of its own that it has taken numbers from, as far as is seen."""
        env = getattr(self._env, "unwrapped", self._env)
        generators = [value for value in getattr(env, "__dict__", {}).values() if isinstance(value, _GENERATORS)]
        seed = getattr(env, "_np_random_seed", None)
        fresh = str(seeding.np_random(seed)[0].bit_generator.state) if isinstance(seed, int) and seed >= 0 else ""
        drawn = [
            each
            for each in generators
            if not isinstance(each, np.random.Generator) or str(each.bit_generator.state) != fresh
        ]
        return tuple(
            getattr(getattr(getattr(each, "bit_generator", None), "seed_seq", None), "entropy", None) for each in drawn
        )

    def close(self) -> int:
        """Close it, and return the nanoseconds that took."""
        try:
            self._call("close", getattr(self._env, "close", lambda: None), is_often=False)
        except BrokenError:
            pass
        finally:
            self._env = None
        return self._examined.stopwatch.last[0]

    def _read(self, result: Any) -> Step:
        took_ns = self._examined.stopwatch.last
        observations, rewards, terminated, truncated, infos = result
        if self.spec.num_agents == 1:
            observations, rewards, terminated, truncated, infos = (
                [each] for each in (observations, rewards, terminated, truncated, infos)
            )
        self._checks.check_outcome(result)
        self._take("step", observations)
        numbers = [[float(np.ravel(each)[0]) for each in values] for values in (rewards, terminated, truncated)]
        ends = [bool(end or cut) for end, cut in zip(numbers[1], numbers[2], strict=True)]
        ended = [agent for agent, has_ended in enumerate(ends) if has_ended]
        mark = self.seen + fingerprint(*numbers)
        if ended:
            self._checks.check_end([infos[agent] for agent in ended])
        if self.ends_apart:
            if ended:
                self._begin(ended)
        elif len(ended) < len(ends):
            ended = []
        return Step(mark, sum(numbers[0]), bool(ended), infos, took_ns)

    def _begin(self, ended: list[int]) -> None:
        self.num_episodes += 1
        begun = self._watched("begin_episodes", lambda: self._env.begin_episodes(ended))
        if not self._checks.check_begun(begun, ended):
            raise BrokenError
        self._checks.check_values("begin_episodes", ended, begun)
        observations = list(self._observations)
        for agent, observation in zip(ended, begun, strict=True):
            observations[agent] = observation
        self._observations = observations

    def _take(self, where: str, observations: Sequence[Any]) -> None:
        self._checks.check_values(where, range(self.spec.num_agents), observations)
        self._observations = list(observations)
        self.seen = fingerprint(self._observations)
        if self._guard is not None:
            self._guard.hold(self._observations)

    def _draw(self, agent: int, observation: Any) -> Any:
        """Draw an action, now and then from the ends of its space, where policies that are clipped are often."""
        space, mask, seen = self._spaces[self.spec.kinds[agent]], None, self.spec.of_agent(agent).observation_space
        if isinstance(space, spaces.Box) and self.num_steps % _EXTREME_INTERVAL == 0 and space.is_bounded():
            return np.ravel(space.low if self.num_steps % (2 * _EXTREME_INTERVAL) else space.high)
        if ACTION_MASK_KEY in seen.spaces:
            mask = flatten_observation(observation, seen).get(ACTION_MASK_KEY)
        return draw_action(space, mask)

    def _watched(self, method: str, call: Callable[[], Any]) -> Any:
        if self._guard is not None:
            self._guard.check_before(method)
        result = self._call(method, call, is_often=True)
        if self._guard is not None:
            self._guard.check_after(method)
        return result

    def _call(self, method: str, call: Callable[[], Any], *, is_often: bool) -> Any:
        examined = self._examined
        examined.position.enter(method, self.num_steps, self.num_episodes)
        place = examined.position.read()
        try:
            with copies_ended():
                examined.stopwatch.start()
                result = call()
                examined.stopwatch.stop()
        except FROM_OUTSIDE:
            raise
        except BaseException as error:
            self._add_raised(method, str(place), error)
            raise BrokenError from error
        finally:
            examined.position.leave()
        examined.surroundings.check(method, is_often=is_often)
        return result

    def _add_raised(self, method: str, place: str, error: BaseException) -> None:
        if isinstance(error, EnvError) and "cannot be sent" in str(error):
            self._add("error", "pickling", str(error).partition(": ")[0], str(error), "see there")
            return
        lines = "".join(traceback.format_exception(error)).splitlines()[-_TRACEBACK_LINES:]
        evidence = f"in {place}:\n" + "\n".join(lines)
        if isinstance(error, SystemExit):
            cure = "raise an exception that says what is wrong: sys.exit is for programs, and here ends a worker"
            self._add("error", "ends its process", f"{method}() calls sys.exit", evidence, cure, method)
        else:
            text = f"{method}() raises {type(error).__name__}: {str(error)[:200]}"
            cure = "mend it: a run ends its worker at each, and gives up after --max_worker_restarts of them"
            if method == "close":
                cure = "mend it: a run goes on without a word, and what the environment has open stays so"
            self._add(
                "warning" if method == "close" else "error",
                "raises",
                text,
                evidence,
                cure,
                f"{method} {type(error).__name__}",
            )

    def _add(self, grade: Any, name: str, text: str, evidence: str, cure: str, key: str = "") -> None:
        self._examined.findings.add(Finding(grade, name, text, evidence, cure), key)
