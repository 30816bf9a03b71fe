"""What is said of runs that become slower, or larger, over time."""

from __future__ import annotations

import pytest

from sample_profiler.analysis.trends.trends import find_trends
from sample_profiler.profiling.session.session import Session
from tests.analysis.trends.made_readings import MadeRun


def the_trend(run):
    (trend,) = find_trends(run.session())
    return trend


def after(second, value, otherwise):
    return lambda time_s, *_: value if time_s >= second else otherwise


def test_nothing_is_said_of_runs_in_which_nothing_changes():
    found = [MadeRun(noise=noise, seed=seed).session() for seed in range(20) for noise in (0.02, 0.1)]
    assert [find_trends(session) for session in found if find_trends(session)] == []


def test_nothing_is_said_of_a_run_without_readings_or_with_somebody_elses():
    assert find_trends(Session(0.0)) == []
    for readings in (3, {}, {"times_s": [1, 2]}, {"times_s": [2.0, 1.0], "gauges": {}, "blocks": {}}, {"times_s": "a"}):
        assert find_trends(Session(0.0, run={"readings": readings})) == []


def test_environments_that_take_longer_from_a_moment_on():
    trend = the_trend(MadeRun(step_s=after(70, 0.03, 0.01), frame_s=lambda _: 0.0002, noise=0.0))
    assert (trend.cause, trend.component) == ("environments", "RolloutWorker_w0")
    assert trend.headline.startswith("Throughput fell from 3,") and "at 70 s" in trend.headline
    assert trend.headline.endswith("steps of the environments of all workers take 3.0 times as long")
    assert trend.ratio == pytest.approx(1 / 3, rel=0.05)
    assert "a pass through env_step of RolloutWorker_w0 takes 30.00 instead of 10.00 ms" in trend.evidence


def test_what_became_quicker_is_not_told_as_slower_where_frames_are_trained_on_later_than_they_are_sampled():
    session = MadeRun(step_s=after(70, 0.01, 0.03), frame_s=lambda _: 0.0002, noise=0.0).session()
    gauges = session.run["readings"]["gauges"][""]
    gauges["frames"] = [gauges["frames"][-1] * min(1.0, (second + 1) / 70) for second in range(len(gauges["frames"]))]
    (trend,) = find_trends(session)
    assert trend.headline.startswith("Throughput rose") and trend.cause == "environments"
    assert trend.headline.endswith("steps of the environments of all workers take 0.33 of the time")


def test_environments_that_take_longer_little_by_little():
    trend = the_trend(MadeRun(step_s=lambda time_s, _: 0.01 * (1 + time_s / 30), frame_s=lambda _: 0.0002))
    assert trend.cause == "environments" and "little by little" in trend.headline


def test_one_of_four_workers_that_becomes_slow_is_named():
    run = MadeRun(step_s=lambda time_s, worker: 0.1 if worker == 2 and time_s >= 60 else 0.01, frame_s=lambda _: 1e-4)
    trend = the_trend(run)
    assert (trend.cause, trend.component) == ("slow worker", "RolloutWorker_w2")
    assert "of RolloutWorker_w2 take 10.0 times as long" in trend.headline
    assert "the other 3 take 1.00 times what they took" in trend.evidence


@pytest.mark.parametrize("others", [lambda _: 0.0, lambda time_s: 4.0 * (time_s % 30 > 15)])
def test_a_worker_that_becomes_slow_is_named_where_the_learner_sets_the_pace_and_others_use_the_processors(others):
    run = MadeRun(step_s=lambda time_s, worker: 0.03 if worker == 3 and time_s >= 60 else 0.01, others=others)
    trends = [trend for trend in find_trends(run.session()) if trend.cause != "another program"]
    assert [(trend.cause, trend.component) for trend in trends] == [("slow worker", "RolloutWorker_w3")]
    assert trends[0].headline == "RolloutWorker_w3 became 3.0 times as slow beside the other workers at 60 s"


def test_workers_that_all_become_slow_are_not_slow_beside_each_other():
    run = MadeRun(step_s=after(70, 0.015, 0.01), frame_s=lambda _: 0.005)
    assert find_trends(run.session()) == []


def test_a_learner_that_becomes_slower_is_named_with_its_block():
    trend = the_trend(MadeRun(frame_s=lambda time_s: 0.0005 * (1 + time_s / 40)))
    assert (trend.cause, trend.component) == ("learner", "Learner_0")
    assert "for each frame in train/update" in trend.headline


def test_a_program_beside_the_run_that_begins_in_between_and_ends():
    trends = find_trends(MadeRun(others=lambda time_s: 3.0 if 50 <= time_s < 100 else 0.0, seconds=160).session())
    assert [trend.cause for trend in trends] == ["another program", "another program"]
    assert [trend.ratio < 1 for trend in trends] == [True, False]
    assert "other programs use 1.7 instead of 0.0 of 4 cores" in trends[0].evidence


def test_a_quota_that_begins_to_hold_the_run_up():
    run = MadeRun(step_s=after(60, 0.02, 0.01), frame_s=lambda _: 1e-4, held_up=after(60, 0.8, 0.0))
    assert the_trend(run).cause == "throttling"


def test_processors_that_become_slower():
    run = MadeRun(step_s=after(60, 0.015, 0.01), frame_s=after(60, 0.00045, 0.0003))
    assert the_trend(run).cause == "slower processors"


def test_a_cost_that_follows_the_return_is_the_policys():
    def reward(time_s):
        return 20.0 + (100.0 if time_s > 60 else 0.0) + 40 * (time_s % 7 > 3)

    run = MadeRun(
        step_s=lambda time_s, _: 0.0002 * reward(time_s),
        frame_s=lambda _: 1e-5,
        history={"episode_return_policy_0": reward},
    )
    trend = the_trend(run)
    assert trend.cause == "episodes"
    assert "follows the return of the policy's episodes" in trend.evidence[-1]


def test_what_is_faster_only_in_the_beginning_or_slower_is_the_start():
    for start in (0.03, 0.005):
        assert find_trends(MadeRun(step_s=after(11, 0.01, start), frame_s=lambda _: 1e-5).session()) == []


def test_a_worker_that_leaks_is_named_with_environments_slope_and_when_memory_is_full():
    run = MadeRun(memory_mib=lambda time_s, worker: 100 + (0.2 * time_s if worker == 1 else 0.0))
    trend = the_trend(run)
    assert (trend.cause, trend.component) == ("memory leak", "RolloutWorker_w1")
    assert trend.headline == (
        "The memory of RolloutWorker_w1 grows steadily, by 12.0 MiB a minute: memory will be full in 14 hours"
    )
    assert any("environments 16 to 31" in sentence and "KiB" in sentence for sentence in trend.evidence)
    assert trend.evidence[-1] == "3 other processes of the kind do not grow"


@pytest.mark.parametrize(
    "memory_mib",
    [
        lambda time_s, _: 100 + min(30.0, time_s),  # caches that fill
        lambda time_s, _: 100 + 20 * (time_s > 70),  # something that is made once
        lambda time_s, _: 100 + 10 * (time_s % 20) / 20,  # what is collected now and then
        lambda time_s, _: 100 + 0.01 * time_s,
    ],
)
def test_memory_that_grows_once_or_hardly_is_no_leak(memory_mib):
    assert find_trends(MadeRun(memory_mib=memory_mib).session()) == []
