"""Student's t interval: how far the mean of a few measurements may be from what it estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

__all__ = ["t_interval"]

_COVERAGE = 0.95
_NUM_HALVINGS = 60  # of a right angle: more than a float can tell


def t_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the ends of the 95 % interval of the mean; None: one value has none.

    It covers what it promises however few the values are, if they are distributed normally.

    Args:
        values: measurements that know nothing of each other.
    """
    if len(values) < 2:
        return None
    mean = fmean(values)
    reach = _t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return mean - reach, mean + reach


def _t_quantile(degrees_of_freedom: int) -> float:
    """Return how many standard errors on both sides cover 95 %, for so many degrees of freedom."""
    low, high = 0.0, math.pi / 2
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _coverage(middle, degrees_of_freedom) < _COVERAGE else (low, middle)
    return math.sqrt(degrees_of_freedom) * math.tan(low)


def _coverage(angle: float, degrees_of_freedom: int) -> float:
    """Return the probability of ``abs(t) <= sqrt(degrees_of_freedom) * tan(angle)``.

    Abramowitz and Stegun 1964, 26.7.3 and 26.7.4.
    """
    is_odd = degrees_of_freedom % 2
    term, total = math.cos(angle) if is_odd else 1.0, 0.0
    for power in range(is_odd, degrees_of_freedom - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * math.cos(angle) ** 2
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if is_odd else total
