"""Observations: the flat dictionary that networks see, and what of it is normalized."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sample_profiler.errors import ConfigError

__all__ = [
    *("DEFAULT_OBSERVATION_KEY", "as_dict_space", "encoded_shape", "flatten_observation", "is_in_range"),
    *("is_lossless", "is_nested", "normalized_keys", "num_entries", "value_range"),
]

DEFAULT_OBSERVATION_KEY = "obs"
"""Key of the observation of an environment whose observations are not dictionaries."""


def as_dict_space(space: gymnasium.Space[Any]) -> spaces.Dict:
    """Return an observation space as a flat dictionary.

    What is no dictionary is found under :data:`DEFAULT_OBSERVATION_KEY`; a dictionary within a dictionary is replaced
    by its entries, under keys such as ``outer/inner``, and so is a Tuple, whose entries are called by their numbers.
    """
    if isinstance(space, spaces.Dict) and not is_nested(space):
        return space
    return spaces.Dict(dict(_leaves(space, "")))


def _leaves(space: gymnasium.Space[Any], key: str) -> Iterator[tuple[str, gymnasium.Space[Any]]]:
    entries = _named_entries(space)
    if entries is None:
        yield key or DEFAULT_OBSERVATION_KEY, space
        return
    for name, entry in entries:
        yield from _leaves(entry, _join_keys(key, name))


def _named_entries(space: gymnasium.Space[Any]) -> list[tuple[Any, gymnasium.Space[Any]]] | None:
    """Return the entries of a Dict by their names, of a Tuple by their numbers; None: it is neither."""
    if isinstance(space, spaces.Dict):
        return list(space.spaces.items())
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else None


def _join_keys(outer: str, name: Any) -> str:
    return f"{outer}/{name}" if outer else str(name)


def is_nested(space: gymnasium.Space[Any]) -> bool:
    """Tell whether a space is a Tuple, or a dictionary with dictionaries or Tuples in it."""
    if isinstance(space, spaces.Tuple):
        return True
    return isinstance(space, spaces.Dict) and any(
        isinstance(item, spaces.Dict | spaces.Tuple) for item in space.values()
    )


def num_entries(space: gymnasium.Space[Any]) -> int:
    """Count what a space consists of, however it is nested: more than there are keys where two have become one."""
    return sum(1 for _ in _leaves(space, ""))


def flatten_observation(observation: Any, keys: Collection[str]) -> dict[str, Any]:
    """Return the entries of a nested observation under keys such as ``outer/inner`` and ``outer/0``.

    Args:
        observation: Dictionaries, and tuples or lists where the space is a Tuple; or a value alone.
        keys: Of the flat observation space: an entry of such a name is not looked into.
    """
    return dict(_entries(observation, "", keys))


def _entries(value: Any, key: str, keys: Collection[str]) -> Iterator[tuple[str, Any]]:
    if key not in keys:
        if isinstance(value, Mapping):
            for name, entry in value.items():
                yield from _entries(entry, _join_keys(key, name), keys)
            return
        if isinstance(value, tuple | list) and _has_numbered_entries(key, keys):
            for index, entry in enumerate(value):
                yield from _entries(entry, _join_keys(key, index), keys)
            return
    yield key or DEFAULT_OBSERVATION_KEY, value


def _has_numbered_entries(key: str, keys: Collection[str]) -> bool:
    """Tell whether what is called so is a Tuple; a list may be a value, too."""
    outer = f"{key}/" if key else ""
    return any(each.startswith(outer) and each[len(outer) :].partition("/")[0].isdigit() for each in keys)


def encoded_shape(space: gymnasium.Space[Any]) -> tuple[int, ...]:
    """Return the shape in which encoders get an observation.

    Of a Discrete that is a vector with a one in it, of a MultiDiscrete such vectors one after another.
    """
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete):
        return (int(space.nvec.sum()),)
    return tuple(space.shape or ())


def value_range(space: gymnasium.Space[Any]) -> tuple[Any, Any] | None:
    """Return the first and the last value of a Discrete, or of each entry of a MultiDiscrete; None of others.

    Networks can take no other values, unlike those beyond the bounds of a Box.
    """
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.start + space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    return None


def is_in_range(value: Any, first: Any, last: Any) -> bool:
    """Tell whether a number, or each of an array, is in a range of :func:`value_range`."""
    is_within = (value >= first) & (value <= last)
    return bool(is_within.all()) if isinstance(is_within, np.ndarray) else bool(is_within)


def is_lossless(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Whether the array survives as another type; floats of another width are common and harmless."""
    are_whole = array.dtype.kind in "iu" and dtype.kind in "iu"  # those of fewer bits would wrap
    if np.can_cast(array.dtype, dtype, "safe" if are_whole else "same_kind"):
        return True
    return array.dtype.kind in "iu" and bool((array.astype(dtype) == array).all())


def normalized_keys(
    observation_spaces: Mapping[str, gymnasium.Space[Any]],
    wanted: Collection[str] | None,
    subtract_mean: float,
    scale: float,
) -> Collection[str]:
    """Return the keys of observations that can be, and are to be, normalized by running statistics.

    Args:
        observation_spaces: By key, without an action mask.
        wanted: ``--normalize_input_keys``.
        subtract_mean: ``--obs_subtract_mean``.
        scale: ``--obs_scale``.

    Raises:
        ConfigError: The flags name observations that do not exist.
    """
    numeric = [key for key, space in observation_spaces.items() if isinstance(space, spaces.Box)]
    problems = []
    if DEFAULT_OBSERVATION_KEY not in numeric and (subtract_mean != 0 or scale != 1):
        problems.append(
            f"--obs_subtract_mean={subtract_mean} and --obs_scale={scale} concern the observation "
            f"{DEFAULT_OBSERVATION_KEY!r}, and the environment has {sorted(numeric)}; leave both flags out, or rename "
            "the observation"
        )
    problems += [
        f"--normalize_input_keys names {key!r}; the environment's observations of numbers are {sorted(numeric)}"
        for key in wanted or ()
        if key not in numeric
    ]
    if problems:
        raise ConfigError(problems)
    return numeric if wanted is None else wanted
