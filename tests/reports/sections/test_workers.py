"""Workers side by side: each beside the others."""

from __future__ import annotations

import math

import pytest

from sample_profiler.reports.sections.workers import WORKER_TITLES, worker_figures, worker_rows
from tests.analysis.made_runs import worker


def test_of_two_workers_the_slow_one_takes_longer_than_the_other():
    slow, healthy = worker_figures([worker(0, steps=500), worker(1, steps=1000)])
    assert (slow.to_others, healthy.to_others) == (pytest.approx(2.0), pytest.approx(0.5))
    assert slow.step_s == pytest.approx(2 * healthy.step_s)


def test_each_worker_is_compared_with_the_median_of_the_others():
    figures = worker_figures([worker(index, steps=steps) for index, steps in enumerate((1000, 1000, 500, 250))])
    assert [each.to_others for each in figures] == pytest.approx([0.5, 0.5, 2.0, 4.0])


def test_what_there_is_nothing_to_compare_with_is_not_known():
    (alone,) = worker_figures([worker(0)])
    assert alone.to_others is None
    assert worker_figures([worker(0), worker(1, steps=0)])[0].to_others is None
    assert worker_figures([]) == []


@pytest.mark.parametrize(
    ("gauges", "slowest"),
    [
        ({}, (None, None)),
        ({"slowest_env": 3.0, "slowest_env_ratio": 4.5}, (3, 4.5)),
        ({"slowest_env": 3.0, "slowest_env_ratio": math.inf}, (None, None)),
    ],
)
def test_the_slowest_environment_is_told_where_there_is_one(gauges, slowest):
    (figures,) = worker_figures([worker(0, **gauges)])
    assert (figures.slowest_env, figures.slowest_env_ratio) == slowest


def test_the_table_has_an_entry_for_each_title_also_of_what_is_not_known():
    gauges = {"slowest_env": 3.0, "slowest_env_ratio": 4.5}
    figures = worker_figures([worker(0, steps=500, **gauges), worker(1, steps=1000)])
    slow, healthy = (dict(zip(WORKER_TITLES, row, strict=True)) for row in worker_rows(figures))
    assert (slow["worker"], slow["to the others"]) == (figures[0].worker, "2.00 ×")
    assert slow["slowest environment to the others"] == "4.5 × (environment 3)"
    assert healthy["slowest environment to the others"] == "–"
    (alone,) = worker_rows(worker_figures([worker(0)]))
    assert alone[WORKER_TITLES.index("to the others")] == "–"
