"""Levels of figures whose noise hangs together and has outliers, and that begin otherwise than they go on."""

from __future__ import annotations

import numpy as np
import pytest

from sample_profiler.analysis.trends.changes import Series, find_changes

NUM, SECONDS = 60, 120.0


def noise(seed, *, alike=0.4, deviation=0.1, degrees=3, num=NUM):
    """Logarithms of an autoregressive process with heavy tails."""
    draws = np.random.default_rng(seed).standard_t(degrees, num + 50)
    values = np.zeros_like(draws)
    for index in range(1, len(draws)):
        values[index] = alike * values[index - 1] + draws[index]
    values = values[50:]
    return deviation * values / (1.4826 * np.median(np.abs(values)))


def series(level, *, seed=0, **options):
    """A figure with this level at each share of the time."""
    shares = (np.arange(NUM) + 0.5) / NUM
    return Series(np.linspace(0, SECONDS, NUM + 1), 1000 * level(shares) * np.exp(noise(seed, **options)))


STARTS = [lambda t: 1 + 0 * t, lambda t: 1 - 0.5 * np.exp(-12 * t), lambda t: 1 + np.exp(-30 * t)]


@pytest.mark.parametrize("level", STARTS)
def test_of_forty_figures_that_do_not_change_after_their_start_hardly_one_is_said_to(level):
    found = [find_changes(series(level, seed=seed)) for seed in range(40)]
    assert sum(map(bool, found)) <= 1


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_a_level_that_begins_at_a_moment(ratio):
    (change,) = find_changes(series(lambda t: np.where(t < 0.6, 1.0, ratio)))
    assert change.ratio == pytest.approx(ratio, rel=0.15)
    assert change.earliest_s <= 72.0 <= change.latest_s + 2.0 and change.begin_s == pytest.approx(72.0, abs=4.0)
    assert not change.is_gradual


def test_a_level_that_comes_back():
    down, up = find_changes(series(lambda t: np.where((t > 0.35) & (t < 0.7), 0.4, 1.0)))
    assert (down.ratio < 0.5, up.ratio > 2) == (True, True)
    assert (down.begin_s, up.begin_s) == (pytest.approx(42.0, abs=4.0), pytest.approx(84.0, abs=4.0))


def test_a_level_that_falls_all_the_time_is_one_change():
    (change,) = find_changes(series(lambda t: 1 / (1 + 3 * t), deviation=0.05))
    assert change.is_gradual
    assert change.ratio == pytest.approx(0.3, abs=0.1)


def test_single_values_that_are_far_off_are_no_level():
    values = np.full(NUM, 1000.0)
    values[[10, 31, 32, 50]] = 5.0
    assert find_changes(Series(np.linspace(0, SECONDS, NUM + 1), values)) == []
