"""The Runner's decisions: when a run ends, why, and what is lost with it."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from sample_profiler.components.messages import TargetReached
from sample_profiler.errors import EnvError
from sample_profiler.runtime.messages.heartbeats import Heartbeat
from sample_profiler.runtime.processes.child import Finished
from sample_profiler.runtime.processes.failure import Failure
from sample_profiler.runtime.signals.suspension import StoodStill
from tests.doubles.clocks import Clock
from tests.run.runner_doubles import FAILURE, EndedChild


def test_a_run_ends_when_all_policies_have_reached_the_target(make_runner):
    runner = make_runner("--num_policies=3")
    for policy in (1, 0, 1, 0):
        runner.handle_reports([TargetReached(policy)])
    assert (runner.loop.num_stops, runner.reason) == (0, "")
    runner.handle_reports([TargetReached(2)])
    assert runner.loop.num_stops == 1
    assert "as many frames as asked" in runner.reason
    assert runner.failure is None


def test_a_run_ends_after_the_seconds_asked_for(make_runner):
    runner = make_runner("--train_for_seconds=50", started_s_ago=30)
    status, *_ = runner.timers()
    status.callback()
    assert runner.loop.num_stops == 0
    runner = make_runner("--train_for_seconds=50", started_s_ago=51)
    status, *_ = runner.timers()
    status.callback()
    assert runner.loop.num_stops == 1
    assert "as many seconds as asked" in runner.reason
    assert runner.failure is None


def test_time_for_which_the_run_stood_still_is_none_of_those_seconds(make_runner):
    clock = Clock()
    runner = make_runner("--train_for_seconds=50", started_s_ago=60, clock=clock)
    runner.handle_reports([StoodStill(name, clock() - 25, clock() - 5) for name in ("Runner", "Learner_0")])
    clock.now_s += 2
    status, *_ = runner.timers()
    status.callback()
    assert runner.loop.num_stops == 0, "it is not known yet who else did"
    clock.now_s += 1
    status.callback()
    assert runner.loop.num_stops == 0
    assert runner.statistics.elapsed_s == pytest.approx(43)
    assert runner.gauges()["stood_still_s"] == pytest.approx(20)
    clock.now_s += 10
    status.callback()
    assert runner.loop.num_stops == 1


def test_the_first_failure_counts_and_all_are_in_the_log(runner, caplog):
    later = Failure("Learner_0", "BrokenPipeError: consequence", "")
    with caplog.at_level(logging.ERROR):
        runner.handle_reports([FAILURE, later])
    assert runner.failure is FAILURE
    assert runner.reason == "RolloutWorker_w1 failed"
    assert runner.loop.num_stops >= 1
    assert [record.getMessage() for record in caplog.records] == [
        "RolloutWorker_w1 failed: EnvError: environment 3 broke\nTraceback ...\nEnvError: environment 3 broke",
        "Learner_0 failed: BrokenPipeError: consequence",
    ]


def test_a_failure_while_a_run_is_ending_is_a_failure_but_not_the_reason(runner):
    runner.handle_reports([TargetReached(0), FAILURE])
    assert runner.failure is FAILURE
    assert "as many frames as asked" in runner.reason


def test_a_process_that_ends_by_itself_is_a_failure(runner):
    runner._on_exits([EndedChild("Batcher_0")])
    assert runner.failure == Failure("Batcher_0", "its process was killed by signal 9 (SIGKILL)", "")
    assert runner.loop.num_stops == 1


def test_what_a_process_said_before_its_end_is_the_cause(runner):
    runner._on_exits([EndedChild("RolloutWorker_w1", FAILURE, Finished("RolloutWorker_w1", {"name": "x"}))])
    assert runner.failure is FAILURE
    assert runner.unrecorded == {"RolloutWorker_w1": {"name": "x"}}


def test_processes_may_end_once_the_run_is_ending(runner):
    runner.interrupt("interrupted by SIGINT")
    runner._on_exits([EndedChild("Batcher_0")])
    assert runner.failure is None
    assert runner.reason == "interrupted by SIGINT"


def end_by_request(runner, component):
    child = EndedChild(component)
    child.was_asked_to_end = True
    runner._on_exits([child])


def test_a_signal_to_all_processes_is_no_failure_though_it_reaches_this_one_last(runner, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: runner.interrupt("interrupted by SIGTERM"))
    end_by_request(runner, "Learner_0")
    assert (runner.failure, runner.reason) == (None, "interrupted by SIGTERM")


def test_a_signal_to_a_single_process_is_a_failure(runner, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    end_by_request(runner, "Learner_0")
    assert runner.failure.component == "Learner_0"


def test_of_two_processes_that_end_the_first_is_the_failure(runner):
    runner._on_exits([EndedChild("Batcher_0"), EndedChild("Learner_0")])
    assert runner.failure.component == "Batcher_0"


def test_the_first_reason_counts(runner):
    runner.interrupt("interrupted by SIGTERM")
    runner.handle_reports([TargetReached(0)])
    assert runner.reason == "interrupted by SIGTERM"


@pytest.mark.parametrize("is_over", [False, True])
def test_who_has_finished_and_does_not_end_is_watched_unless_the_run_is_over(make_runner, caplog, is_over):
    clock = Clock()
    runner = make_runner("--heartbeat_reporting_interval=20", clock=clock)
    runner.guard.expect("Batcher_0")
    runner.handle_reports([Heartbeat("Batcher_0")])
    if is_over:
        runner.interrupt("interrupted by SIGTERM")
    runner.handle_reports([Finished("Batcher_0", {})])
    for _ in range(30):
        clock.now_s += 1
        runner.guard.look()
    assert ("Batcher_0 has shown no sign of life" in caplog.text) != is_over


def test_a_learner_that_did_not_finish_fails_the_run_where_it_had_learned_something(make_runner, caplog):
    runner = make_runner("--num_policies=2")
    runner.counters.training_iterations[1] = 1
    runner.ends.miss({"Learner_0": "it was killed"})
    assert runner.failure is None, "it was still starting: nothing is lost"
    assert "Learner_0: it was killed" in caplog.text
    assert "is lost" not in caplog.text
    runner.ends.miss({"InferenceWorker_p0-w1": "it was killed"})
    assert runner.failure is None
    runner.ends.miss({"Learner_1": "it was killed"})
    message = "it was killed; what it had learned since its last checkpoint is lost"
    assert runner.failure == Failure("Learner_1", message, "")


def test_many_components_that_share_a_fate_share_a_line(runner, caplog):
    runner.ends.miss(
        {
            "Batcher_0": "it was killed",
            **{f"RolloutWorker_w{i}": "it did not end" for i in range(9)},
            "X": "it was killed",
        }
    )
    assert [record.getMessage() for record in caplog.records] == [
        "Batcher_0, X, each: it was killed",
        "RolloutWorker_w0, RolloutWorker_w1, RolloutWorker_w2, RolloutWorker_w3 and 5 others, each: it did not end",
    ]


def test_nothing_is_lost_with_a_learner_that_had_finished_before_it_was_killed(runner):
    runner.counters.training_iterations[0] = 1
    runner.handle_reports([Finished("Learner_0", {})])
    runner.ends.miss({"Learner_0": "it was killed"})
    assert runner.failure is None


def test_the_end_of_who_has_finished_or_failed_is_known(runner):
    runner.handle_reports([Finished("Batcher_0", {}), FAILURE])
    runner._on_exits([EndedChild("Learner_0")])
    known = [runner.ends.knows(name) for name in ("Batcher_0", FAILURE.component, "Learner_0")]
    assert known == [True, True, False], "the Learner's end, with the run about to end, is looked at in the end"


def test_what_an_environment_raises_while_the_run_is_interrupted_is_no_failure(make_runner, caplog):
    """A signal to all processes of a terminal ends its simulator as well, maybe before this process gets it."""
    runner = make_runner()
    later = threading.Timer(0.1, runner.interrupt, ["interrupted by SIGINT"])
    later.start()
    runner.take_error("RolloutWorker_w0", EnvError("the simulator is gone"))
    later.join()
    assert (runner.failure, runner.reason) == (None, "interrupted by SIGINT")
    assert "RolloutWorker_w0 could not go on until the run ended: EnvError: the simulator is gone" in caplog.text


@pytest.mark.parametrize("error", [EnvError("the simulator is gone"), ValueError("a mistake")])
def test_what_a_component_raises_ends_the_run(make_runner, error):
    runner = make_runner()
    if isinstance(error, ValueError):
        runner.interrupt("interrupted by SIGINT")
    runner.take_error("RolloutWorker_w0", error)
    assert str(error) in runner.failure.message
    assert runner.failure.component == "RolloutWorker_w0"
