"""Owns how what an environment observes becomes the flat dictionaries of arrays that its spec says, in their range."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy.typing as npt
from gymnasium import spaces

from sample_profiler.envs.contract import EnvSpec, describe_range
from sample_profiler.errors import EnvContractError
from sample_profiler.spaces import DEFAULT_OBSERVATION_KEY, flatten_observation, is_in_range, is_nested, value_range

__all__ = ["Arrays", "ObservationReader", "Observations"]

Observations = list[dict[str, Any]]
Arrays = dict[str, npt.NDArray[Any]]


class ObservationReader:
    """Reads the observations of one environment.

    Args:
        space: that the environment itself says its observations are of.
        spec: what the environment is expected to be like.
        title: of the environment, for errors.

    Attributes:
        flatten: what makes an observation the flat dictionary that the spec says; None: it is one already.
        ranges: by key, for Discrete and MultiDiscrete spaces: the first and last values of which no network could take
            others; empty: any will do.
        batched_shapes: of observations of all members of a vector, `[N, ...]`, by key.
        has_one_key: observations are arrays, found under a key of ours.
    """

    def __init__(self, space: spaces.Space[Any], spec: EnvSpec, title: str) -> None:
        self._title = title
        self.ranges = {
            key: bounds for key, each in spec.observation_space.items() if (bounds := value_range(each)) is not None
        }
        self.batched_shapes = {
            key: (spec.num_agents, *(each.shape or ())) for key, each in spec.observation_space.items()
        }
        self.flatten: Callable[[Any], dict[str, Any]] | None = None
        if is_nested(space):
            self.flatten = partial(flatten_observation, keys=frozenset(spec.observation_space))
        elif not isinstance(space, spaces.Dict):
            self.flatten = _under_default_key
        self.has_one_key = self.flatten is _under_default_key

    def as_dicts(self, observations: list[Any], where: str) -> Observations:
        """Return observations of several agents as flat dictionaries.

        Args:
            observations: as a method of the environment returned them.
            where: the method, for errors.

        Raises:
            EnvContractError: one is out of its range.
        """
        dicts = list(observations) if self.flatten is None else list(map(self.flatten, observations))
        if self.ranges:
            self.check_ranges(dicts, where)
        return dicts

    def as_arrays(self, observations: Any, where: str) -> Arrays:
        """Return batched observations of all members of a vector by key, `[N, ...]`; arguments as of `as_dicts`.

        Raises:
            EnvContractError: one is out of its range.
            ValueError: they are not of the shape that the spec says.
        """
        arrays: Arrays = observations if self.flatten is None else self.flatten(observations)
        for key, shape in self.batched_shapes.items():
            if arrays[key].shape != shape:
                raise ValueError(f"observations {key!r} are of shape {arrays[key].shape} instead of {shape}")
        for key, (first, last) in self.ranges.items():
            if not is_in_range(arrays[key], first, last):
                self._check_range(key, arrays[key], where)
        return arrays

    def check_ranges(self, observations: Observations, where: str) -> None:
        """Look whether flat observations are in their range; arguments and errors as of `as_dicts`."""
        for key in self.ranges:
            self._check_range(key, [observation[key] for observation in observations], where)

    def _check_range(self, key: str, values: Iterable[Any], where: str) -> None:
        first, last = self.ranges[key]
        for value in values:
            if not is_in_range(value, first, last):
                told = describe_range(value, first, last)
                raise EnvContractError(f"{self._title}: {where}() returned observation {key!r} {told}")


def _under_default_key(observation: Any) -> dict[str, Any]:
    return {DEFAULT_OBSERVATION_KEY: observation}
