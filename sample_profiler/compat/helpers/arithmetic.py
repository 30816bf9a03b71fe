"""Owns small arithmetic of numbers and arrays, and a number that changes over steps. Imports no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    *("LinearDecay", "ensure_contigious", "max_with_idx", "min_with_idx", "numpy_all_the_way", "numpy_flatten"),
    "scale_to_range",
]


class LinearDecay:
    """A number that goes from milestone to milestone, and stays what it is before the first and behind the last.

    Args:
        milestones: Pairs of a step and the number there.
        staircase: It changes by so much at a time; None: with every step.

    Raises:
        ValueError: There are no milestones.
    """

    def __init__(self, milestones: Sequence[tuple[float, float]], staircase: float | None = None) -> None:
        if not milestones:
            raise ValueError("a LinearDecay has one milestone or more, pairs of a step and a number: there are none")
        in_order = sorted(milestones)
        self._steps = [step for step, _ in in_order]
        self._values = [value for _, value in in_order]
        self._staircase = staircase

    def at(self, step: float) -> float:
        """Return the number at a step."""
        value = float(np.interp(step, self._steps, self._values))
        if self._staircase is None or not self._steps[0] < step < self._steps[-1]:
            return value
        low, high = sorted((self._values[0], self._values[-1]))
        return min(max(value // self._staircase * self._staircase, low), high)


def scale_to_range(np_array: Any, min_: float, max_: float) -> Any:
    """Return numbers moved and stretched so that the smallest is `min_` and the largest is `max_`."""
    low, high = np.min(np_array), np.max(np_array)
    return (np_array - low) / (high - low) * (max_ - min_) + min_


def min_with_idx(x: Sequence[Any]) -> tuple[Any, int]:
    """Return the smallest entry, and where it is first."""
    index = min(range(len(x)), key=x.__getitem__)
    return x[index], index


def max_with_idx(x: Sequence[Any]) -> tuple[Any, int]:
    """Return the largest entry, and where it is first."""
    index = max(range(len(x)), key=x.__getitem__)
    return x[index], index


def numpy_all_the_way(list_of_arrays: Sequence[Any]) -> Any:
    """Return arrays of one shape as one, with a dimension more."""
    return np.stack(list_of_arrays)


def numpy_flatten(list_of_arrays: Sequence[Any]) -> Any:
    """Return arrays joined along their first dimension."""
    return np.concatenate(list_of_arrays)


def ensure_contigious(x: Any) -> Any:
    """Return an array whose numbers lie one behind the other."""
    return np.ascontiguousarray(x)
