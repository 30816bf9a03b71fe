"""Phases with something on and off that take turns within one run, and what can be said of their difference."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from benchmarks.measuring.statistic import Interval, bootstrap, log_ratios, trimmed_mean


def is_on_in_phase(index: int) -> bool:
    """Return what a phase has: on, off, off, on, and again, so that a steady drift favours neither of a pair's two."""
    return index % 4 in (0, 3)


def adjusted_ratio_on_to_off(
    on: Sequence[float], off: Sequence[float], control_on: Sequence[float], control_off: Sequence[float]
) -> Interval:
    """Return the ratio of a figure in phases that are on to the others, without what a second figure explains of it.

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
    pairs = list(zip(log_ratios(on, off), log_ratios(control_on, control_off), strict=True))
    return bootstrap(pairs, _mean_beside_control).map(math.exp)


def _mean_beside_control(pairs: Sequence[tuple[float, float]]) -> float:
    mean = statistics.fmean(figure for figure, _ in pairs)
    mean_control = statistics.fmean(control for _, control in pairs)
    spread = math.fsum((control - mean_control) ** 2 for _, control in pairs)
    together = math.fsum((figure - mean) * (control - mean_control) for figure, control in pairs)
    slope = together / spread if spread else 0.0
    return trimmed_mean([figure - slope * control for figure, control in pairs])
