"""What benchmarks say of numbers that differ from time to time: middles, spreads, ratios and their intervals."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

NUM_RESAMPLES = 10_000
_TRIMMED_SHARE = 0.2

_Value = TypeVar("_Value")


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


def trimmed_mean(values: Sequence[float]) -> float:
    """Return the mean without the lowest and highest fifth: one checkpoint or one neighbour shall not decide."""
    ordered = sorted(values)
    cut = int(len(ordered) * _TRIMMED_SHARE)
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def bootstrap(values: Sequence[_Value], estimate: Callable[[Sequence[_Value]], float], seed: int = 0) -> Interval:
    """Return an estimate from some values with its 95 % interval, by the percentiles of those from resampled values."""
    generator = random.Random(seed)
    resampled = sorted(estimate(generator.choices(values, k=len(values))) for _ in range(NUM_RESAMPLES))
    lower, upper = resampled[int(0.025 * NUM_RESAMPLES)], resampled[int(0.975 * NUM_RESAMPLES) - 1]
    return Interval(estimate(values), lower, upper)


def ratio_interval(these: Sequence[float], those: Sequence[float]) -> Interval:
    """Return the ratio of these figures to those with which they make pairs: the trimmed geometric mean.

    Raises:
        ValueError: there are less than two pairs; an interval would say more than is known.
    """
    return bootstrap(log_ratios(these, those), trimmed_mean).map(math.exp)


def log_ratios(these: Sequence[float], those: Sequence[float]) -> list[float]:
    """Return the logarithm of the ratio of each pair.

    Raises:
        ValueError: there are less than two pairs.
    """
    logarithms = [math.log(first / second) for first, second in zip(these, those, strict=True)]
    if len(logarithms) < 2:
        raise ValueError(f"{len(logarithms)} pairs are too few to compare: measure for longer")
    return logarithms


def median_ratio(these: Sequence[float], those: Sequence[float]) -> float:
    """Return the median of the ratios of these figures to those with which they make pairs."""
    return statistics.median(first / second for first, second in zip(these, those, strict=True))


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile; of a single value that."""
    lower, middle, upper = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    return lower, middle, upper


def describe_spread(values: Sequence[float], unit: str = "") -> str:
    """Return the median and the quartiles of some values."""
    lower, middle, upper = quartiles(values)
    return f"{middle:,.4g} [{lower:,.4g}, {upper:,.4g}]{unit}"


def describe_range(middle: float, lowest: float, highest: float, digits: int = 2) -> str:
    """Return what stands for some values, and between which they are."""
    return f"{middle:,.{digits}f} ({lowest:,.{digits}f} to {highest:,.{digits}f})"
