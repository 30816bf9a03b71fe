"""Phases with something on and off that take turns within one run, and what can be said of their difference."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

NUM_RESAMPLES = 10_000
_TRIMMED_SHARE = 0.2


@dataclass(frozen=True)
class Interval:
    """An estimate with its bootstrap interval.

    Attributes:
        estimate: from all values.
        lower: 2.5 % quantile of the estimates from resampled values.
        upper: 97.5 % quantile.
    """

    estimate: float
    lower: float
    upper: float

    def map(self, function: Callable[[float], float]) -> Interval:
        """Return the interval of a function that only grows or only falls."""
        first, second = function(self.lower), function(self.upper)
        return Interval(function(self.estimate), min(first, second), max(first, second))


def is_on_in_phase(index: int) -> bool:
    """Return what a phase has: on, off, off, on, and again, so that a steady drift favours neither of a pair's two."""
    return index % 4 in (0, 3)


def trimmed_mean(values: Sequence[float]) -> float:
    """Return the mean without the lowest and highest fifth: one checkpoint or one neighbour shall not decide."""
    ordered = sorted(values)
    cut = int(len(ordered) * _TRIMMED_SHARE)
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def bootstrap(values: Sequence[float], seed: int = 0) -> Interval:
    """Return the trimmed mean with its 95 % interval, by the percentiles of resampled means."""
    generator = random.Random(seed)
    means = sorted(trimmed_mean(generator.choices(values, k=len(values))) for _ in range(NUM_RESAMPLES))
    return Interval(trimmed_mean(values), means[int(0.025 * NUM_RESAMPLES)], means[int(0.975 * NUM_RESAMPLES) - 1])


def ratio_on_to_off(on: Sequence[float], off: Sequence[float]) -> Interval:
    """Return the ratio of a figure in phases that are on to those that are off, from pairs of neighbours.

    Args:
        on: the figure of each pair's phase that is on.
        off: of its other phase.

    Raises:
        ValueError: there are less than two pairs.
    """
    logarithms = [math.log(first / second) for first, second in zip(on, off, strict=True)]
    if len(logarithms) < 2:
        raise ValueError(f"{len(logarithms)} pairs of phases are too few to compare: measure for longer")
    return bootstrap(logarithms).map(math.exp)


def describe_spread(values: Sequence[float], unit: str = "") -> str:
    """Return the median and the quartiles of some values."""
    lower, middle, upper = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    return f"{middle:,.4g} [{lower:,.4g}, {upper:,.4g}]{unit}"
