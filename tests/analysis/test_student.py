"""Student's t interval, against the quantiles that tables have."""

from __future__ import annotations

import math
import random
from statistics import stdev

import pytest

from sample_profiler.analysis.student import t_interval

QUANTILES = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 7: 2.365, 30: 2.042, 1000: 1.962}


@pytest.mark.parametrize(("degrees_of_freedom", "quantile"), QUANTILES.items())
def test_it_reaches_as_far_as_tables_say(degrees_of_freedom, quantile):
    values = [math.sin(number) for number in range(degrees_of_freedom + 1)]
    low, high = t_interval(values)
    assert (high - low) / 2 == pytest.approx(quantile * stdev(values) / math.sqrt(len(values)), rel=5e-4)
    assert (low + high) / 2 == pytest.approx(sum(values) / len(values))


def test_one_value_has_none():
    assert t_interval([0.3]) is None


def test_four_values_are_covered_as_often_as_it_says():
    draw = random.Random(2)
    covered = sum(
        low <= 0.5 <= high for low, high in (t_interval([draw.gauss(0.5, 0.1) for _ in range(4)]) for _ in range(1000))
    )
    assert 930 <= covered <= 970
