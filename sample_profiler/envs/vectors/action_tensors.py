"""Owns how the numbers of actions, as tensors, become what a vector takes, on the device where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from sample_profiler.envs.vectors.row_bounds import Bounds
from sample_profiler.spaces import action_width

__all__ = ["clipping_rows", "tensor_converter"]


def tensor_converter(space: gymnasium.Space[Any], device: torch.device) -> Callable[[Tensor], Any]:
    """Return what does for tensors, ``[num, action_width]``, what `action_batch_converter` does for arrays.

    They come out in new memory, contiguous; those of a Box clipped to its bounds.

    Args:
        space: Of the action of one member.
        device: Where the tensors are.
    """
    if isinstance(space, spaces.Tuple | spaces.Dict):
        members = list(space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces)
        converters = [tensor_converter(member, device) for member in members]
        widths = [action_width(member) for member in members]

        def convert_all(actions: Tensor) -> list[Any]:
            pieces = torch.split(actions, widths, dim=1)
            return [convert(piece) for convert, piece in zip(converters, pieces, strict=True)]

        if isinstance(space, spaces.Tuple):
            return lambda actions: tuple(convert_all(actions))
        keys = list(space.spaces)
        return lambda actions: dict(zip(keys, convert_all(actions), strict=True))
    assert space.dtype is not None
    assert space.shape is not None
    dtype = torch.from_numpy(np.empty(0, space.dtype)).dtype
    shape = space.shape
    if isinstance(space, spaces.Box):
        low, high = (torch.from_numpy(bound.reshape(-1)).to(device) for bound in (space.low, space.high))
        return lambda actions: actions.to(dtype).clamp(low, high).view(-1, *shape)
    starts = torch.from_numpy(np.ravel(getattr(space, "start", 0))).to(device)
    return lambda actions: (actions + starts).to(dtype).view(-1, *shape)


def clipping_rows(convert: Callable[[Tensor], Any], bounds: Bounds, device: torch.device) -> Callable[[Tensor], Any]:
    """Return what does what `convert` does, and clips what came out for each member of a vector to its own bounds.

    Args:
        convert: From `tensor_converter`, of a Box.
        bounds: Of all members.
        device: Where the tensors are.
    """
    low, high = (torch.from_numpy(bound).to(device) for bound in bounds)
    return lambda actions: convert(actions).clamp(low, high)
