"""Actions: the parts that they consist of, and how their numbers become what an environment takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sample_profiler.errors import EnvContractError

__all__ = [
    *(
        "action_batch_converter",
        "action_converter",
        "action_dtype",
        "action_parts",
        "action_width",
        "draw_action",
        "flatten_action",
    ),
    *("flatten_action", "is_discrete", "num_action_parameters", "part_width"),
]


def action_parts(space: gymnasium.Space[Any]) -> tuple[spaces.Discrete | spaces.Box, ...]:
    """Return the parts that an action consists of, each drawn by itself: Discrete, or Box of floats.

    A MultiDiscrete or MultiBinary is as many Discrete parts as it has entries, a Tuple or Dict the parts of its
    members, in their order.

    Raises:
        EnvContractError: There is no distribution for such actions.
    """
    if isinstance(space, spaces.Discrete):
        return (space,)
    if isinstance(space, spaces.MultiDiscrete):
        pairs = zip(space.nvec.ravel().tolist(), np.ravel(space.start).tolist(), strict=True)
        return tuple(spaces.Discrete(num, start=start) for num, start in pairs)
    if isinstance(space, spaces.MultiBinary):
        return (spaces.Discrete(2),) * math.prod(space.shape)
    if members := _members(space):
        return tuple(part for member in members for part in action_parts(member))
    if isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind == "f":
        return (space,)
    raise EnvContractError(
        f"action space {space} is not supported; allowed are Discrete, MultiDiscrete, MultiBinary, Box of floats, and "
        "Tuples and Dicts of them: convert it in a wrapper"
    )


def _members(space: gymnasium.Space[Any]) -> list[gymnasium.Space[Any]]:
    """Return what a Tuple or Dict consists of; nothing of others."""
    if isinstance(space, spaces.Dict):
        return list(space.spaces.values())
    return list(space.spaces) if isinstance(space, spaces.Tuple) else []


def is_discrete(space: gymnasium.Space[Any]) -> bool:
    """Tell whether all parts of an action are Discrete."""
    return all(isinstance(part, spaces.Discrete) for part in action_parts(space))


def action_width(space: gymnasium.Space[Any]) -> int:
    """Return how many numbers one action is: 1 for each Discrete part, the number of its entries for a Box."""
    return sum(part_width(part) for part in action_parts(space))


def part_width(part: spaces.Discrete | spaces.Box) -> int:
    """Return how many numbers of an action one of its parts is."""
    return 1 if isinstance(part, spaces.Discrete) else math.prod(part.shape)


def num_action_parameters(space: gymnasium.Space[Any]) -> int:
    """Return how many numbers describe the distribution of one action.

    Discrete(n): n logits. Box with n entries: n means and n logarithms of standard deviations. All parts one after
    another.
    """
    return sum(
        int(part.n) if isinstance(part, spaces.Discrete) else 2 * part_width(part) for part in action_parts(space)
    )


def action_dtype(space: gymnasium.Space[Any]) -> np.dtype[Any]:
    """Return the type of an action's numbers: int64 if all of it is discrete, else float32."""
    return np.dtype(np.int64) if is_discrete(space) else np.dtype(np.float32)


def action_converter(space: gymnasium.Space[Any]) -> Callable[[npt.NDArray[Any]], Any]:
    """Return what turns the numbers of an action, ``[action_width]``, into what an environment takes.

    Discrete numbers count from 0 in trajectories. The policy's Gaussian is unbounded; what it drew stays in the
    trajectory, the environment gets it clipped to the bounds of the Box.
    """
    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        return lambda action: int(action[0]) + first
    if isinstance(space, spaces.MultiDiscrete):
        starts, shape, dtype = np.ravel(space.start), space.nvec.shape, space.dtype
        return lambda action: (action.astype(dtype) + starts).reshape(shape)
    if isinstance(space, spaces.MultiBinary):
        bits, bits_dtype = space.shape, space.dtype
        return lambda action: action.astype(bits_dtype).reshape(bits)
    if isinstance(space, spaces.Tuple | spaces.Dict):
        members = [action_converter(member) for member in _members(space)]
        ends = np.cumsum([action_width(member) for member in _members(space)])[:-1]

        def convert_all(action: npt.NDArray[Any]) -> list[Any]:
            pieces = np.split(action, ends)
            return [convert(piece) for convert, piece in zip(members, pieces, strict=True)]

        if isinstance(space, spaces.Tuple):
            return lambda action: tuple(convert_all(action))
        keys = list(space.spaces)
        return lambda action: dict(zip(keys, convert_all(action), strict=True))
    if isinstance(space, spaces.Box):
        low, high, box_shape, box_dtype = space.low, space.high, space.shape, space.dtype
        # An array of the Box's own type, also of no dimension, where numpy's functions give a number instead.
        return lambda action: np.asarray(np.minimum(np.maximum(action.reshape(box_shape), low), high), box_dtype)
    return lambda action: action


def action_batch_converter(space: gymnasium.Space[Any]) -> Callable[[npt.NDArray[Any]], Any]:
    """Return what does the work of :func:`action_converter` for many actions at once, ``[num, action_width]``.

    They come out in new memory, as gymnasium batches them: an array ``[num, ...]``, for a Tuple or Dict one of arrays.
    """
    if isinstance(space, spaces.Discrete):
        return lambda actions: (actions[:, 0] + space.start).astype(space.dtype, copy=False)
    if isinstance(space, spaces.MultiDiscrete):
        starts, shape = np.ravel(space.start), space.nvec.shape
        return lambda actions: (actions + starts).astype(space.dtype, copy=False).reshape(-1, *shape)
    if isinstance(space, spaces.MultiBinary):
        bits = space.shape
        return lambda actions: actions.astype(space.dtype).reshape(-1, *bits)
    if isinstance(space, spaces.Tuple | spaces.Dict):
        members = [action_batch_converter(member) for member in _members(space)]
        ends = np.cumsum([action_width(member) for member in _members(space)])[:-1]

        def convert_all(actions: npt.NDArray[Any]) -> list[Any]:
            pieces = np.split(actions, ends, axis=1)
            return [convert(piece) for convert, piece in zip(members, pieces, strict=True)]

        if isinstance(space, spaces.Tuple):
            return lambda actions: tuple(convert_all(actions))
        keys = list(space.spaces)
        return lambda actions: dict(zip(keys, convert_all(actions), strict=True))
    if isinstance(space, spaces.Box):
        box_shape, dtype = space.shape, space.dtype
        low, high = (bound.flat[0] if len(set(bound.flat)) == 1 else bound.ravel() for bound in (space.low, space.high))
        return lambda actions: np.clip(actions, low, high).astype(dtype, copy=False).reshape(-1, *box_shape)
    return lambda actions: actions.copy()


def draw_action(space: gymnasium.Space[Any], mask: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Draw an action as the space samples it, ``[action_width]``; forbidden values are replaced by allowed ones.

    Args:
        space: With a seed or without.
        mask: 0 for each value of a discrete part that is not allowed; ``None``: all are.
    """
    action = flatten_action(space, space.sample())
    if mask is not None:
        column = first = 0
        for part in action_parts(space):
            if isinstance(part, spaces.Discrete):
                allowed = np.flatnonzero(mask[first : first + int(part.n)])
                if action[column] not in allowed and len(allowed):
                    action[column] = space.np_random.choice(allowed)
                first += int(part.n)
            column += part_width(part)
    return action


def flatten_action(space: gymnasium.Space[Any], action: Any) -> npt.NDArray[Any]:
    """Return the numbers of an action of an environment, ``[action_width]``: what its converter undoes."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        values = action if isinstance(space, spaces.Tuple) else [action[key] for key in space.spaces]
        parts = [flatten_action(member, part) for member, part in zip(_members(space), values, strict=True)]
        return np.concatenate(parts).astype(action_dtype(space))
    start = np.ravel(space.start) if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else 0
    return np.ravel(action) - start
