"""How far two clocks are apart is known as well as meetings tell it, and the truth is always within."""

from __future__ import annotations

import math
import random

import pytest

from sample_profiler.runtime.machine.clock_bounds import ClockBounds


def meet_often(offset_s: float, drift: float, latency_s: float, number: int = 300) -> tuple[ClockBounds, float]:
    """Return the bounds after so many meetings, and the true difference then."""
    rng, bounds, now_s, other_left_s = random.Random(3), ClockBounds(), 1000.0, 0.0

    def ours(true_s: float) -> float:
        return true_s * (1 + drift) + offset_s

    for _ in range(number):
        now_s += rng.uniform(0.1, 0.5)
        came_s, other_came_s = now_s, now_s + rng.gauss(0, 0.01)
        met_s = max(came_s, other_came_s)
        left_s, left_other_s = (met_s + latency_s * rng.uniform(0.5, 1.5) for _ in range(2))
        bounds.meet(ours(came_s), ours(left_s), other_came_s, other_left_s)
        other_left_s, now_s = left_other_s, max(left_s, left_other_s)
    return bounds, ours(now_s) - now_s


@pytest.mark.parametrize("offset_s", [0.0, 12345.6, -0.003])
@pytest.mark.parametrize("drift", [0.0, 2e-5, -2e-5])
def test_the_true_difference_is_within_the_bounds_also_of_clocks_that_drift(offset_s: float, drift: float) -> None:
    bounds, true_s = meet_often(offset_s, drift, latency_s=0.0002)
    assert abs(bounds.offset_s - true_s) <= bounds.error_s
    assert bounds.error_s < 0.002


def test_a_longer_way_is_a_wider_bound() -> None:
    near, far = (meet_often(1.0, 0.0, latency_s=latency_s)[0] for latency_s in (0.0001, 0.01))
    assert near.error_s < far.error_s


def test_nothing_is_known_before_two_meetings() -> None:
    bounds = ClockBounds()
    assert math.isnan(bounds.offset_s)
    bounds.meet(5.0, 5.1, 1.0, 0.0)
    assert bounds.error_s == math.inf
