"""Which spaces of environments can be trained on, and what makes others such ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler.errors import EnvContractError
from sample_profiler.spaces.actions import action_width
from sample_profiler.spaces.observations import as_dict_space, encoded_shape, num_entries, value_range

__all__ = ["check_action_space", "check_observation_space"]

_MOST_VALUES = 1 << 24
"""Of all Discrete and MultiDiscrete parts together: a layer of 16 behind them has a gigabyte of weights."""


def check_observation_space(space: gymnasium.Space[Any], attribute: str, name: str) -> None:
    """Check that networks can read what is observed.

    Args:
        space: Of the observations.
        attribute: Of the environment, for errors: whose it is.
        name: Of the environment, for errors.

    Raises:
        EnvContractError: They cannot.
    """
    for key in _keys(space):
        if not isinstance(key, str) or not key:
            raise EnvContractError(
                f"environment {name}: {attribute} has the key {key!r}; keys are texts, and not empty: give it a name "
                "in a wrapper"
            )
    flat = as_dict_space(space)
    if all(0 in (item.shape or ()) for item in flat.spaces.values()):
        raise EnvContractError(
            f"environment {name}: {attribute} is {space}, in which there is nothing; it needs at least one number"
        )
    for key, item in flat.spaces.items():
        where = f"{attribute}[{key!r}]" if isinstance(space, spaces.Dict | spaces.Tuple) else attribute
        if isinstance(item, spaces.Text):
            raise EnvContractError(
                f"environment {name}: {where} is {item}, and networks read numbers: turn its words or letters into the "
                "numbers of a MultiDiscrete or a Box in a wrapper, or leave it out there "
                "(gymnasium.wrappers.FilterObservation)"
            )
        if isinstance(item, spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete):
            continue
        if not isinstance(item, spaces.Box) or item.dtype is None or item.dtype.kind not in "iuf":
            raise EnvContractError(
                f"environment {name}: {where} is {item}; allowed are Box of integers or floats, Discrete, "
                f"MultiDiscrete, MultiBinary, and Tuples and Dicts of them: {_cure_of(item)}"
            )
    num_values = sum(math.prod(encoded_shape(item)) for item in flat.spaces.values() if value_range(item) is not None)
    if num_values > _MOST_VALUES:
        raise EnvContractError(
            f"environment {name}: {attribute} is {space}, which networks read as {num_values:,} numbers, one for each "
            "value: make a Box of it in a wrapper, or several numbers of fewer values"
        )
    if len(flat.spaces) < num_entries(space):
        raise EnvContractError(
            f"environment {name}: two entries of {attribute} become one when it is flattened, for example 'a/b' "
            "and 'b' within 'a': give one of them another name"
        )


def _keys(space: gymnasium.Space[Any]) -> Iterator[Any]:
    """Yield the keys of dictionaries, however deep they are."""
    if isinstance(space, spaces.Dict):
        yield from space.spaces
    for entry in space.spaces.values() if isinstance(space, spaces.Dict) else getattr(space, "spaces", ()):
        yield from _keys(entry)


def _cure_of(space: gymnasium.Space[Any]) -> str:
    """Say what makes an observation of this space one that networks can read."""
    if isinstance(space, spaces.Box) and space.dtype == np.bool_:
        return "make it a MultiBinary, or a Box of numpy.uint8 from 0 to 1"
    if isinstance(space, spaces.Sequence | spaces.Graph):
        return "its size changes from step to step: make it a Box of the largest one, with a mask, in a wrapper"
    return "convert it in a wrapper, for example gymnasium.wrappers.FlattenObservation"


def check_action_space(space: gymnasium.Space[Any], attribute: str, name: str) -> None:
    """Check that a policy can choose actions of a space.

    Args:
        space: Of the actions.
        attribute: Of the environment, for errors: whose it is.
        name: Of the environment, for errors.

    Raises:
        EnvContractError: It cannot.
    """
    try:
        width = action_width(space)
    except EnvContractError as error:
        raise EnvContractError(f"environment {name}: {error}") from None
    if not width:
        raise EnvContractError(
            f"environment {name}: {attribute} {space} has no number to choose; it needs at least one"
        )
