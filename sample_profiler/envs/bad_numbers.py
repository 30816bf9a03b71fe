"""Owns what is said and done about numbers of environments that are not finite (`--on_bad_numbers`).

Networks, and what is trained on, have 32 bits for a number: one of 64 that is beyond their range is infinite, too.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sample_profiler.errors import EnvContractError
from sample_profiler.repeated_warnings import is_logged

__all__ = ["BadNumbers", "describe_bad", "describe_bad_reward", "is_finite", "is_finite_number", "without_bad"]

logger = logging.getLogger(__name__)

_LARGEST, _BYTES = float(np.finfo(np.float32).max), np.dtype(np.float32).itemsize
_BEYOND = "beyond float32"


class BadNumbers:
    """Tells of numbers that are not finite, by environment and step, and does not flood the log.

    Args:
        env_name: for messages.
        stops: whether the first of them ends the run.
        is_training: whether steps are trained on, if nothing is wrong with them; else the environment is only played.
    """

    def __init__(self, env_name: str, stops: bool, *, is_training: bool = True) -> None:
        self._env_name = env_name
        self._stops = stops
        self._is_training = is_training
        self._num_seen = 0

    def report(self, env: int, agent: int, what: str, where: str) -> None:
        """Log what an environment has returned, or raise.

        Args:
            env: number of the environment over the run.
            agent: of the environment.
            what: that is not finite.
            where: in which step.

        Raises:
            EnvContractError: the run is to stop.
        """
        message = self._describe(env, agent, what, where)
        if self._is_training:
            self._tell(message, "it counts as 0, and the step is not trained on", "leave such steps out of training")
        else:
            self._tell(message, "the policy sees 0 in its place", "show the policy 0 in its place")

    def mended(self, env: int, agent: int, observation: dict[str, Any], where: str) -> dict[str, Any]:
        """Return an observation with zeros in the place of what is not finite; itself if there is nothing to mend.

        Args:
            env: number of the environment over the run.
            agent: of the environment.
            observation: by key.
            where: in which step.

        Raises:
            EnvContractError: there is something, and the run is to stop.
        """
        mended = {}
        for key, value in observation.items():
            values = np.asarray(value)
            if values.dtype.kind == "f" and not is_finite(values):
                self.report(env, agent, describe_bad(key, values), where)
                mended[key] = without_bad(values)
        return observation | mended if mended else observation

    def counted(self, env: int, agent: int, reward: float, where: str) -> float:
        """Return what a reward counts as that nobody is trained on: itself, or 0 where it is not finite.

        Args:
            env: number of the environment over the run.
            agent: of the environment.
            reward: of one step.
            where: in which step.

        Raises:
            EnvContractError: it is not, and the run is to stop.
        """
        if is_finite_number(reward):
            return reward
        self._tell(self._describe(env, agent, describe_bad_reward(reward), where), "it counts as 0", "count it as 0")
        return 0.0

    def kept(self, env: int, agent: int, statistics: Mapping[str, float], where: str) -> dict[str, float]:
        """Return what an episode tells of itself without what is not finite: there is no mean with it, and no best.

        Args:
            env: number of the environment over the run.
            agent: of the environment.
            statistics: by name.
            where: in which step.

        Raises:
            EnvContractError: there is something, and the run is to stop.
        """
        kept = {}
        for name, value in statistics.items():
            if math.isfinite(value):
                kept[name] = value
            else:
                message = self._describe(env, agent, f"the statistic {name!r} {value}", where)
                self._tell(message, "it is left out", "leave it out")
        return kept

    def _describe(self, env: int, agent: int, what: str, where: str) -> str:
        return f"environment {env} ({self._env_name}), agent {agent}, returned {what} in {where}"

    def _tell(self, message: str, outcome: str, skipping: str) -> None:
        """Log what follows, or raise with what would follow if it were skipped."""
        if self._stops:
            raise EnvContractError(f"{message}: look into the environment, or use --on_bad_numbers=skip to {skipping}")
        self._num_seen += 1
        if is_logged(self._num_seen):
            logger.warning("%s (number %d of this process)", f"{message}: {outcome}", self._num_seen)


def describe_bad(key: str, values: npt.NDArray[Any]) -> str:
    """Say what is wrong with an observation."""
    are_finite = _are_finite(values)
    found = {"NaN": np.isnan(values), "infinity": np.isinf(values)}
    found[f"values {_BEYOND}"] = np.isfinite(values) & ~are_finite
    kinds = " and ".join(kind for kind, where in found.items() if where.any())
    return f"{kinds} in {np.sum(~are_finite)} of {values.size} numbers of observation {key!r}"


def describe_bad_reward(reward: float) -> str:
    """Say what is wrong with a reward."""
    return f"the reward {reward}" + (f", {_BEYOND}," if math.isfinite(reward) else "")


def is_finite(values: npt.NDArray[Any]) -> bool:
    """Return whether there is no NaN, no infinity and nothing beyond float32 among them."""
    return bool(_are_finite(values).all())


def is_finite_number(value: float) -> bool:
    """Return the same of one number."""
    return abs(float(value)) <= _LARGEST


def without_bad(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return them with zeros in the place of what is not finite."""
    return np.where(_are_finite(values), values, values.dtype.type(0))


def _are_finite(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    has_more = values.dtype.kind == "f" and values.dtype.itemsize > _BYTES
    are_finite: npt.NDArray[np.bool_] = np.abs(values) <= _LARGEST if has_more else np.isfinite(values)
    return are_finite
