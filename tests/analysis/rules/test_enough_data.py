"""Runs of which there is too little to judge, or whose start was most of it."""

from __future__ import annotations

import pytest

from sample_profiler.analysis.facts import RunFacts
from sample_profiler.analysis.verdict import judge
from tests.analysis.made_runs import inference, judge_run, learner, load, worker


def test_a_start_that_was_longer_than_the_rest_is_named_however_short_the_rest_was():
    loads = [worker(0), inference(), learner(0.5)]
    assert judge_run(*loads, start_s=60.0, seconds=5.0).cause == "start-up"
    assert judge_run(*loads, start_s=9.0, seconds=5.0).cause == "not enough data"


@pytest.mark.parametrize(("start_s", "cause"), [(4.0, "start-up"), (1.0, "not enough data")])
def test_a_run_that_was_over_before_it_was_steady_is_told_so(start_s, cause):
    loads = (worker(0), inference(), learner(0.5))
    verdict = judge(RunFacts(5.0, start_s, 0.0, 2, 0.5, False, loads, is_steady=False))
    assert verdict.cause == cause
    assert verdict.headline == f"The run was over before it was steady: its start took {start_s:.0f} s of 5 s"
    assert verdict.advice


def test_of_something_else_than_a_training_run_nothing_is_said():
    assert judge_run(load("main", 0.9)).cause == "not enough data"
