"""Owns bounds of actions that are not the same for all members of a vector."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy.typing as npt
from gymnasium import spaces

__all__ = ["Bounds", "find_row_bounds"]

Bounds = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def find_row_bounds(batched: Any, of_member: gymnasium.Space[Any], num_members: int) -> Bounds | None:
    """Return the lowest and highest actions of all N members, `[N, ...]`; None: those of one member are those of all.

    Args:
        batched: The space of the actions of all members, if it is one.
        of_member: The space of the action of one.
        num_members: N.
    """
    if not isinstance(batched, spaces.Box) or not isinstance(of_member, spaces.Box):
        return None
    if batched.shape != (num_members, *of_member.shape):
        return None
    are_equal = (batched.low == of_member.low).all() and (batched.high == of_member.high).all()
    return None if are_equal else (batched.low, batched.high)
