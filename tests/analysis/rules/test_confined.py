"""Runs that may use less than the machine has."""

from __future__ import annotations

import pytest

from tests.analysis.made_runs import inference, judge_run, learner, limits, most_fps, worker

LOADS = (worker(0), worker(1), inference(), learner(0.5))


def test_a_quota_that_is_used_up_is_named_with_the_cure():
    verdict = judge_run(*LOADS, machine_busy=1.0, num_cores=1, limits=limits(2, 0.5, 0.96))
    assert verdict.cause == "quota"
    assert verdict.headline == "The run may use 0.5 cores (a quota of its container), and that is used up"
    assert verdict.evidence[0].startswith("in 96 % of its periods it was used up")
    assert verdict.advice[0].change == "a larger quota"
    assert verdict.advice[0].fps[1] == pytest.approx(most_fps(4))


@pytest.mark.parametrize("held_up", [0.0, 0.2])
def test_a_quota_that_is_met_now_and_then_is_not_the_limit(held_up):
    assert judge_run(*LOADS, limits=limits(8, 2.0, held_up)).cause != "quota"


@pytest.mark.parametrize(("machine_cores", "change"), [(16, "more of the machine's cores"), (1, "more cores")])
def test_one_core_that_all_share_is_named_also_where_there_is_no_other(machine_cores, change):
    verdict = judge_run(*LOADS, machine_busy=0.99, num_cores=1, limits=limits(machine_cores))
    assert (verdict.cause, verdict.advice[0].change) == ("one core", change)


def test_one_core_that_is_not_used_up_is_enough():
    assert judge_run(*LOADS, machine_busy=0.5, num_cores=1, limits=limits(16)).cause != "one core"


def test_where_the_processors_are_used_up_it_is_told_that_the_machine_has_more():
    loads = [worker(0, learner=0.05), worker(1, learner=0.05), inference(), learner(0.9)]
    verdict = judge_run(*loads, machine_busy=0.99, limits=limits(16))
    assert verdict.cause == "processor"
    assert "the machine has 16 cores" in verdict.evidence
    assert "the machine has 2 cores" not in judge_run(*loads, machine_busy=0.99, limits=limits(2)).evidence
