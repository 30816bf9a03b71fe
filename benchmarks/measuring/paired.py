"""Phases with something on and off that take turns within one run, and what can be said of their difference."""

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


def is_on_in_phase(index: int) -> bool:
    """Return what a phase has: on, off, off, on, and again, so that a steady drift favours neither of a pair's two."""
    return index % 4 in (0, 3)


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


def ratio_on_to_off(on: Sequence[float], off: Sequence[float]) -> Interval:
    """Return the ratio of a figure in phases that are on to those that are off, from pairs of neighbours.

    Args:
        on: the figure of each pair's phase that is on.
        off: of its other phase.

    Raises:
        ValueError: there are less than two pairs.
    """
    return bootstrap(_log_ratios(on, off), trimmed_mean).map(math.exp)


def adjusted_ratio_on_to_off(
    on: Sequence[float], off: Sequence[float], control_on: Sequence[float], control_off: Sequence[float]
) -> Interval:
    """Return the ratio of a figure as `ratio_on_to_off`, without what a second figure explains of it.

    The second one is a control variate: something that tells how fast the machine was in a phase and does not depend on
    what is on or off. Its logarithmic ratio, times the slope of a least-squares line through all pairs, is taken off
    that of the figure; the line is fitted anew to each resampled set of pairs, so that the interval knows of it.
    (Deng, Xu, Kohavi and Walker, "Improving the sensitivity of online controlled experiments by utilizing
    pre-experiment data", 2013, on control variates; this one's mean is known to be 0.)

    Args:
        on: the figure of each pair's phase that is on.
        off: of its other phase.
        control_on: the second figure of the phases that are on.
        control_off: of the other ones.

    Raises:
        ValueError: there are less than two pairs.
    """
    pairs = list(zip(_log_ratios(on, off), _log_ratios(control_on, control_off), strict=True))
    return bootstrap(pairs, _mean_beside_control).map(math.exp)


def _mean_beside_control(pairs: Sequence[tuple[float, float]]) -> float:
    mean = statistics.fmean(figure for figure, _ in pairs)
    mean_control = statistics.fmean(control for _, control in pairs)
    spread = math.fsum((control - mean_control) ** 2 for _, control in pairs)
    together = math.fsum((figure - mean) * (control - mean_control) for figure, control in pairs)
    slope = together / spread if spread else 0.0
    return trimmed_mean([figure - slope * control for figure, control in pairs])


def _log_ratios(on: Sequence[float], off: Sequence[float]) -> list[float]:
    logarithms = [math.log(first / second) for first, second in zip(on, off, strict=True)]
    if len(logarithms) < 2:
        raise ValueError(f"{len(logarithms)} pairs of phases are too few to compare: measure for longer")
    return logarithms


def describe_spread(values: Sequence[float], unit: str = "") -> str:
    """Return the median and the quartiles of some values."""
    lower, middle, upper = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    return f"{middle:,.4g} [{lower:,.4g}, {upper:,.4g}]{unit}"
