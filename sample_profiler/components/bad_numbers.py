"""Owns what is said and done about numbers of environments that are not finite (`--on_bad_numbers`)."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt

from sample_profiler.errors import EnvContractError
from sample_profiler.repeated_warnings import is_logged

__all__ = ["BadNumbers", "describe_bad", "is_finite", "without_bad"]

logger = logging.getLogger(__name__)


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
        message = f"environment {env} ({self._env_name}), agent {agent}, returned {what} in {where}"
        if self._stops:
            skipped = "leave such steps out of training" if self._is_training else "show the policy 0 in its place"
            raise EnvContractError(f"{message}: look into the environment, or use --on_bad_numbers=skip to {skipped}")
        self._num_seen += 1
        if is_logged(self._num_seen):
            if self._is_training:
                message += ": it counts as 0, and the step is not trained on"
            else:
                message += ": the policy sees 0 in its place"
            logger.warning("%s (number %d of this process)", message, self._num_seen)

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


def describe_bad(key: str, values: npt.NDArray[Any]) -> str:
    """Say what is wrong with an observation."""
    kinds = [name for name, is_kind in (("NaN", np.isnan), ("infinity", np.isinf)) if is_kind(values).any()]
    return f"{' and '.join(kinds)} in {np.sum(~np.isfinite(values))} of {values.size} numbers of observation {key!r}"


def is_finite(values: npt.NDArray[Any]) -> bool:
    """Return whether there is no NaN and no infinity among them."""
    return bool(np.isfinite(values).all())


def without_bad(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return them with zeros in the place of what is not finite."""
    return np.where(np.isfinite(values), values, values.dtype.type(0))
