"""Runs of which there is too little to judge, or whose start was most of it."""

from __future__ import annotations

import pytest

from sample_profiler.analysis.facts import RunFacts, StartSteps
from sample_profiler.analysis.verdict import judge
from tests.analysis.made_runs import inference, judge_run, learner, load, worker


def test_a_start_that_was_longer_than_the_rest_is_named_however_short_the_rest_was():
    loads = [worker(0), inference(), learner(0.5)]
    assert judge_run(*loads, start_s=60.0, seconds=5.0).cause == "start-up"
    assert judge_run(*loads, start_s=9.0, seconds=5.0).cause == "not enough data"


def test_what_came_after_a_long_start_is_judged_if_it_is_enough():
    loads = [worker(0), inference(), learner(0.5)]
    verdict = judge_run(*loads, start_s=30.0, seconds=20.0)
    assert verdict.cause not in ("start-up", "not enough data")
    assert verdict.evidence[-1] == "before these 20 s the run took 30 s to start"
    assert judge_run(*loads, start_s=61.0, seconds=20.0).cause == "start-up"
    assert "to start" not in judge_run(*loads, start_s=15.0, seconds=20.0).evidence[-1]


@pytest.mark.parametrize(("start_s", "cause"), [(4.0, "start-up"), (1.0, "not enough data")])
def test_a_run_that_was_over_before_it_was_steady_is_told_so(start_s, cause):
    loads = (worker(0), inference(), learner(0.5))
    verdict = judge(RunFacts(5.0, start_s, 0.0, 2, 0.5, False, loads, is_steady=False))
    assert verdict.cause == cause
    assert verdict.headline == f"The run was over before it was steady: its start took {start_s:.0f} s of 5 s"
    assert verdict.advice


def test_of_something_else_than_a_training_run_nothing_is_said():
    assert judge_run(load("main", 0.9)).cause == "not enough data"


def stepping(first, later, num_first, num_later):
    """What a worker stepped in these shares of a minute, before its first rollout and after, a number of times."""
    return StartSteps(num_first, 60 * first, num_later, 60 * later)


def judge_short(start, *, machine_busy=0.5, start_s=50.0, slow_worker=None):
    loads = (slow_worker or worker(0), inference(), load("Learner_0", 0.1, {"batcher": 0.9}))
    flags = {"batch_size": 512, "num_envs_per_worker": 8}
    return judge(RunFacts(60.0, start_s, 0.0, 2, machine_busy, False, loads, flags, is_steady=False, start=start))


def test_a_start_that_was_stepping_slowly_is_told_so_also_where_little_came_after_it():
    loads = (worker(0), inference(), load("Learner_0", 0.1, {"batcher": 0.9}, counts={"train": 2}))
    flags = {"batch_size": 512, "num_envs_per_worker": 8}
    verdict = judge(RunFacts(9.0, 16.0, 114.0, 2, 0.5, False, loads, flags, start=StartSteps(384, 3.0, 400, 9.0)))
    assert verdict.cause == "environments"
    assert verdict.headline == "The run was mostly its start: a step of an environment takes 6 ms"


def test_a_first_dataset_that_does_not_come_since_steps_are_slow_is_no_start_up():
    verdict = judge_short(stepping(0.7, 0.2, 120, 4))  # 54 s of 120 steps and of 4 of four environments
    assert verdict.cause == "environments"
    assert verdict.headline.endswith("a step of an environment takes 397 ms")
    assert verdict.evidence[0] == "stepping environments took 90 % of 60 s"
    assert "datasets that it trained on: 0; one is 512 steps, which take about 203 s" in verdict.evidence
    changes = [advice.change for advice in verdict.advice]
    assert changes[:3] == ["--decorrelate_envs_on_one_worker=False", "a faster environment", "--num_workers=2"]


def test_a_dataset_of_steps_of_several_agents_takes_fewer_steps_of_environments():
    several = load("RolloutWorker_w0", 0.5, gauges={"agents_per_env": 4.0})
    verdict = judge_short(stepping(0.7, 0.2, 120, 4), slow_worker=several)
    assert "datasets that it trained on: 0; one is 512 steps, which take about 51 s" in verdict.evidence


def test_a_start_that_was_resetting_environments_is_told_so():
    verdict = judge_short(StartSteps(120, 1.0, 40, 30.0, 45.0))
    assert verdict.cause == "environments"
    assert verdict.headline.endswith("was over before it was steady: resetting its environments took 45 s of it")
    assert verdict.evidence[0] == "resetting environments took 75 % of 60 s"
    assert "resetting" not in judge_short(StartSteps(120, 42.0, 4, 12.0, 11.0)).headline


def test_random_steps_that_take_little_are_not_what_to_leave_out():
    changes = [advice.change for advice in judge_short(stepping(0.02, 0.9, 4, 40), machine_busy=1.0).advice]
    assert changes == ["a faster environment", "a longer run"]


@pytest.mark.parametrize("slow", [stepping(0.1, 0.1, 120, 4), stepping(0.1, 0.5, 9000, 90_000)])
def test_a_start_that_is_something_else_than_slow_steps_stays_one(slow):
    assert judge_short(slow).cause == "start-up"


def test_slow_first_steps_of_threads_that_wait_for_each_other_are_too_many_threads():
    crowded = load("RolloutWorker_w0", 0.99, cpu=1.0, starved=5.0)
    verdict = judge_short(stepping(0.7, 0.2, 120, 4), machine_busy=1.0, slow_worker=crowded)
    assert (verdict.cause, verdict.component) == ("too many threads", "RolloutWorker_w0")
