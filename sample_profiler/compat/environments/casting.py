"""Owns observations in the types that their spaces say, of environments that return others.

Sample Factory copies observations into arrays of these types, whatever they were.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from sample_profiler.envs.contract import only_number

__all__ = ["DeclaredTypes"]

logger = logging.getLogger(__name__)

_ARRAYS = (spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete)

_told: set[tuple[str, str, str]] = set()
"""What was warned of in this process: of many environments one is enough."""


class DeclaredTypes:
    """Gives observations the types that a space says.

    What cannot be cast stays what it was, for whoever checks it.

    Args:
        space: Of one agent; entries of a dictionary that are nested themselves are left alone.
    """

    def __init__(self, space: Any) -> None:
        self._is_dict = isinstance(space, spaces.Dict)
        entries = space.spaces if isinstance(space, spaces.Dict) else {"": space}
        self._types = {key: entry.dtype for key, entry in entries.items() if isinstance(entry, _ARRAYS)}
        self._discrete = {key for key, entry in entries.items() if isinstance(entry, spaces.Discrete)}

    def __bool__(self) -> bool:
        return bool(self._types or self._discrete)

    def of_one(self, observation: Any) -> Any:
        """Return the observation of one agent; of a Discrete that is an array of one entry, the number in it."""
        if not self._is_dict:
            return self._entry("", observation)
        if not isinstance(observation, Mapping):
            return observation
        return {key: self._entry(key, value) for key, value in observation.items()}

    def of_all(self, observations: Any) -> Any:
        """Return the observations of several agents: one for each in a list or tuple, or with a dimension more."""
        if not self:
            return observations
        if isinstance(observations, list | tuple):
            return list(map(self.of_one, observations))
        if isinstance(observations, Mapping):
            return {key: self._cast(key, values) for key, values in observations.items()}
        return self._cast("", observations)

    def _entry(self, key: str, value: Any) -> Any:
        return only_number(value) if key in self._discrete else self._cast(key, value)

    def _cast(self, key: str, value: Any) -> Any:
        dtype: Any = self._types.get(key)
        if dtype is None or getattr(value, "dtype", None) == dtype or hasattr(value, "detach"):  # tensors stay
            return value
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):  # a list of lists of several lengths
            return value
        if array.dtype.kind not in "biuf":
            return value
        with np.errstate(invalid="ignore"):  # NaN as an integer
            cast = array.astype(dtype)
        told = (key, str(array.dtype), str(dtype))
        is_only_width = array.dtype.kind == cast.dtype.kind == "f"  # common and harmless
        if not is_only_width and told not in _told and not np.array_equal(cast, array):
            _told.add(told)
            logger.warning(
                "Observations%s come as %s, and their space says %s: they are cast, as Sample Factory casts them",
                f" {key!r}" if key else "",
                array.dtype,
                dtype,
            )
        return cast
