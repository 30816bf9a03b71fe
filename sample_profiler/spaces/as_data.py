"""Spaces as plain data, for files: numbers, texts, lists and dictionaries alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

__all__ = ["space_from_data", "space_to_data"]

_MOST_NUMBERS = 100_000_000  # of a Box: what a damaged file says shall not fill the memory


def space_to_data(space: gymnasium.Space[Any]) -> dict[str, Any]:
    """Return what `space_from_data` makes an equal space of.

    Args:
        space: Box, Discrete, MultiBinary, MultiDiscrete, or a Tuple or Dict of them.

    Raises:
        TypeError: It is another one.
    """
    match space:
        case spaces.Discrete():
            return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiBinary():
            return {"kind": "MultiBinary", "n": _plain(space.n)}
        case spaces.MultiDiscrete():
            numbers = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
            return {"kind": "MultiDiscrete", "dtype": str(space.dtype), **numbers}
        case spaces.Box():
            bounds = {"low": _compact(space.low), "high": _compact(space.high)}
            return {"kind": "Box", "dtype": str(space.dtype), "shape": list(space.shape), **bounds}
        case spaces.Tuple():
            return {"kind": "Tuple", "members": [space_to_data(member) for member in space.spaces]}
        case spaces.Dict():
            entries = [[key, space_to_data(entry)] for key, entry in space.spaces.items()]
            return {"kind": "Dict", "entries": entries}
    raise TypeError(f"there is no data for the space {space}")


def space_from_data(data: Any) -> gymnasium.Space[Any]:
    """Return the space that data of `space_to_data` describe.

    Raises:
        ValueError: They describe none.
    """
    try:
        return _read(data)
    except (ArithmeticError, AssertionError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"it describes no space: {type(error).__name__}: {error}") from None


def _read(data: Mapping[str, Any]) -> gymnasium.Space[Any]:
    match data["kind"]:
        case "Discrete":
            return spaces.Discrete(data["n"], start=data["start"])
        case "MultiBinary":
            return spaces.MultiBinary(data["n"])
        case "MultiDiscrete":
            dtype: Any = np.dtype(data["dtype"]).type
            return spaces.MultiDiscrete(data["nvec"], dtype=dtype, start=data["start"])
        case "Box":
            return _read_box(data)
        case "Tuple":
            return spaces.Tuple([_read(member) for member in data["members"]])
        case "Dict":
            return spaces.Dict([(key, _read(entry)) for key, entry in data["entries"]])
    raise ValueError(f"the kind {data['kind']!r} is unknown")


def _read_box(data: Mapping[str, Any]) -> spaces.Box:
    shape, dtype = tuple(data["shape"]), np.dtype(data["dtype"])
    if math.prod(shape) > _MOST_NUMBERS:
        raise ValueError(f"a Box of shape {shape} is larger than any observation")
    low, high = (_spread(data[bound], shape, dtype) for bound in ("low", "high"))
    kind: Any = dtype.type
    return spaces.Box(low, high, dtype=kind)


def _plain(n: Any) -> Any:
    """Return a number, or a shape as a list of them."""
    return int(n) if np.ndim(n) == 0 else [int(size) for size in n]


def _compact(bounds: npt.NDArray[Any]) -> Any:
    """Return the bound that all numbers have, or a list of all."""
    values = bounds.ravel()
    is_one = values.size > 0 and bool((values == values[0]).all())
    return values[0].item() if is_one else values.tolist()


def _spread(bound: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.full(shape, bound, dtype) if np.ndim(bound) == 0 else np.array(bound, dtype).reshape(shape)
