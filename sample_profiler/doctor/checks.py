"""Owns what is looked for in everything that an environment returns: its contract, and what is not in that.

The contract is what a run cannot do without. Beyond it, a run goes on with numbers that are off, and nobody notices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sample_profiler.doctor.findings import Finding, Findings
from sample_profiler.doctor.values import arrays_in, fingerprint
from sample_profiler.envs.bad_numbers import describe_bad, describe_bad_reward, is_finite, is_finite_number
from sample_profiler.envs.contract import (
    EnvSpec,
    check_begun_episodes,
    check_reset_result,
    check_step_result,
    read_episode_statistics,
)
from sample_profiler.errors import EnvContractError
from sample_profiler.spaces import flatten_observation

__all__ = ["ActionGuard", "ObservationGuard", "ResultChecks"]

_CONTRACT_CURE = (
    "mend what it returns, or its spaces: the contract of environments is in docs/extending.md, and a run checks it "
    "only at first"
)
_ROUNDING = 1e-5  # of a bound: what arithmetic in 32 bits loses is no value out of bounds


Bounds = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]
"""The least and the largest values of an observation, and how far they may be missed by rounding."""


class ResultChecks:
    """Looks at what each call returned.

    Args:
        spec: of the environment.
        name: of the environment.
        findings: are added to.
    """

    def __init__(self, spec: EnvSpec, name: str, findings: Findings) -> None:
        self._spec = spec
        self._name = name
        self._findings = findings
        self._bounds = [
            {key: bounds for key, space in each.observation_space.items() if (bounds := _bounds_of(space))}
            for each in spec.of_kinds()
        ]

    def check_reset(self, result: Any) -> bool:
        """Check what `reset` returned; tell whether it can be gone on with."""
        return self._keeps_contract("reset", partial(check_reset_result, result, self._spec, self._name), result)

    def check_begun(self, observations: Any, agents: Sequence[int]) -> bool:
        """Check what `begin_episodes` returned; tell whether it can be gone on with."""
        return self._keeps_contract(
            "begin_episodes", partial(check_begun_episodes, observations, agents, self._spec, self._name), None
        )

    def check_step(self, result: Any) -> bool:
        """Check what `step` returned; tell whether it can be gone on with."""
        return self._keeps_contract("step", partial(check_step_result, result, self._spec, self._name), result)

    def check_values(self, where: str, agents: Sequence[int], observations: Sequence[Any]) -> None:
        """Check the observations of agents beyond the contract.

        Args:
            where: the method that returned them.
            agents: whose they are.
            observations: one of each of them.
        """
        for agent, observation in zip(agents, observations, strict=True):
            seen, bounds = self._spec.of_agent(agent).observation_space, self._bounds[self._spec.kinds[agent]]
            for key, value in flatten_observation(observation, seen).items():
                array = np.asarray(value)
                space = seen.get(key)
                if not isinstance(space, spaces.Box) or array.dtype.kind not in "iuf":
                    continue
                self._check_type(where, key, value, array, space)
                if array.dtype.kind == "f" and not is_finite(array):
                    self._add_bad(where, describe_bad(key, array))
                elif key in bounds and array.shape == space.shape:
                    self._check_bounds(where, key, array, bounds[key])

    def check_outcome(self, result: Sequence[Any]) -> None:
        """Check the rewards and flags of a step beyond the contract."""
        agents = self._spec.num_agents > 1
        for what, value in (("reward", result[1]), ("terminated", result[2]), ("truncated", result[3])):
            for each in value if agents else [value]:
                if hasattr(each, "shape") and not isinstance(each, np.generic):
                    kind = "a number" if what == "reward" else "True or False"
                    self._add(
                        "warning",
                        "outcome",
                        f"step() returns {what} as {type(each).__name__} of shape {tuple(each.shape)}, not as {kind}",
                        f"{each!r:.80}",
                        f"return {'float' if what == 'reward' else 'bool'}({what}): wrappers compare and add it, and "
                        "an array that the environment goes on using changes afterwards",
                        what,
                    )
        for reward in np.ravel(np.asarray(result[1], np.float64)) if agents else [float(np.ravel(result[1])[0])]:
            if not is_finite_number(reward):
                self._add_bad("step", describe_bad_reward(reward))

    def check_end(self, infos: Sequence[Any]) -> None:
        """Check the infos of all agents that ended an episode."""
        for info in infos:
            self._keeps_contract("step", partial(read_episode_statistics, info, "step()"), None)

    def _keeps_contract(self, where: str, check: Callable[[], object], result: Any) -> bool:
        try:
            check()
        except EnvContractError as error:
            text = str(error).removeprefix(f"environment {self._name}: ").removeprefix("environment ")
            what, _, more = text.partition("; ")
            evidence = f"seen in {where}()" + (f"; {more}" if more else "")
            self._add("error", "contract", what, evidence, _CONTRACT_CURE, re.sub(r"[-+.\d]+", "#", what)[:60])
            return _can_be_read(where, result)
        return True

    def _check_type(self, where: str, key: str, value: Any, array: npt.NDArray[Any], space: spaces.Box) -> None:
        if array.dtype != space.dtype:
            what = str(array.dtype) if isinstance(value, np.ndarray) else f"a {type(value).__name__} of {array.dtype}"
            self._add(
                "warning",
                "type",
                f"{where}() returns observation {key!r} as {what}; observation_space says {space.dtype}",
                f"{value!r:.80}",
                f"return it as {space.dtype} (observation.astype(np.{space.dtype})), or let the space say "
                f"{array.dtype}: each step converts it, and what does not fit is lost",
                f"{key} {what}",
            )

    def _check_bounds(self, where: str, key: str, array: npt.NDArray[Any], bounds: Bounds) -> None:
        low, high, slack = bounds
        is_out = (array < low - slack) | (array > high + slack)
        if is_out.any():
            index = tuple(np.argwhere(is_out)[0].tolist())
            place = str(list(index)) if index else ""
            self._add(
                "warning",
                "bounds",
                f"{where}() returns observation {key!r} outside of its Box",
                f"{key}{place} was {float(array[index]):g}; the space says {float(low[index]):g} to "
                f"{float(high[index]):g}",
                "widen the bounds of the Box, or clip the observation (numpy.clip): who scales by the bounds is off",
                f"{where} {key}",
            )

    def _add_bad(self, where: str, what: str) -> None:
        self._add(
            "error",
            "not finite",
            f"{where}() returns numbers that are not finite",
            what,
            "find out where it divides by 0 or overflows; a run counts such numbers as 0 and leaves the step out "
            "(--on_bad_numbers)",
            where,
        )

    def _add(self, grade: Any, name: str, text: str, evidence: str, cure: str, key: str) -> None:
        self._findings.add(Finding(grade, name, text, evidence, cure), key)


def _bounds_of(space: Any) -> Bounds | None:
    """Return the bounds of a Box, and by how much arithmetic may miss them; None: its type has no others."""
    if not isinstance(space, spaces.Box) or not (np.isfinite(space.low).any() or np.isfinite(space.high).any()):
        return None
    if space.dtype.kind in "iu":
        limits = np.iinfo(space.dtype)
        if (space.low == limits.min).all() and (space.high == limits.max).all():
            return None
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    sizes = np.where(np.isfinite(low), np.abs(low), 0.0), np.where(np.isfinite(high), np.abs(high), 0.0)
    return low, high, _ROUNDING * np.maximum(1.0, np.maximum(*sizes))


def _can_be_read(where: str, result: Any) -> bool:
    """Tell whether something is of the form, at least, of what a method returns."""
    length = {"reset": 2, "step": 5}.get(where)
    return length is None or (isinstance(result, tuple) and len(result) == length)


class ObservationGuard:
    """Looks whether observations stay what they were when they were returned.

    Args:
        findings: are added to.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._held = _Held()

    def hold(self, observations: Any) -> None:
        """Keep observations until the next call has returned."""
        self._held = _Held(observations)

    def check_before(self, method: str) -> None:
        """Look at them before the next call."""
        if self._held.is_changed():
            self._findings.add(
                Finding(
                    "error",
                    "changes by itself",
                    "An observation changes while nobody calls the environment",
                    f"it was another one by the time {method}() was called",
                    "return a copy (observation.copy()) of what a thread of the environment goes on writing into",
                )
            )
            self._findings.drop("aliasing")
            self._held = _Held()

    def check_after(self, method: str) -> None:
        """Look at them once the next call has returned."""
        if self._held.is_changed() and not self._findings.has("changes by itself"):
            self._findings.add(
                Finding(
                    "warning",
                    "aliasing",
                    "An observation that was returned is changed by the next call",
                    f"{method}() wrote into the array that the call before it had returned",
                    "return a copy (observation.copy()): whoever keeps observations, such as a stack of frames or a "
                    "wrapper, has the newest one several times",
                )
            )
        self._held = _Held()


class ActionGuard:
    """Looks whether an environment leaves the actions alone that it is given.

    Args:
        findings: are added to.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._held = _Held()

    def hold(self, action: Any) -> None:
        """Keep what the environment is going to be given."""
        self._held = _Held(action)

    def check(self) -> None:
        """Look at it after a call."""
        if self._held.is_changed():
            self._findings.add(
                Finding(
                    "warning",
                    "action changed",
                    "The environment changes the action that it is given",
                    "the array was another one after step()",
                    "work on a copy (action = np.array(action)): operations such as *= and numpy's out= write into it, "
                    "and a wrapper or a loop that keeps it has an action that nobody took",
                )
            )
        self._held = _Held()


class _Held:
    """Arrays as they were when they were handed over; None, or something without arrays: nothing to look at."""

    def __init__(self, arrays: Any = None) -> None:
        self._arrays = arrays if any(True for _ in arrays_in(arrays)) else None
        self._before = b"" if self._arrays is None else fingerprint(self._arrays)

    def is_changed(self) -> bool:
        return self._arrays is not None and fingerprint(self._arrays) != self._before
