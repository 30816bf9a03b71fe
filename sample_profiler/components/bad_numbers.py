"""Owns what is said and done about numbers of environments that are not finite (`--on_bad_numbers`)."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt

from sample_profiler.errors import EnvContractError

__all__ = ["BadNumbers", "describe_bad"]

logger = logging.getLogger(__name__)


class BadNumbers:
    """Tells of numbers that are not finite, by environment and step, and does not flood the log.

    Args:
        env_name: for messages.
        stops: whether the first of them ends the run.
    """

    def __init__(self, env_name: str, stops: bool) -> None:
        self._env_name = env_name
        self._stops = stops
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
            cure = "look into the environment, or use --on_bad_numbers=skip to leave such steps out of training"
            raise EnvContractError(f"{message}: {cure}")
        self._num_seen += 1
        if str(self._num_seen).rstrip("0") == "1":  # 1, 10, 100, …
            logger.warning(
                "%s: it counts as 0, and the step is not trained on (number %d of this worker)", message, self._num_seen
            )


def describe_bad(key: str, values: npt.NDArray[Any]) -> str:
    """Say what is wrong with an observation."""
    kinds = [name for name, is_kind in (("NaN", np.isnan), ("infinity", np.isinf)) if is_kind(values).any()]
    return f"{' and '.join(kinds)} in {np.sum(~np.isfinite(values))} of {values.size} numbers of observation {key!r}"
