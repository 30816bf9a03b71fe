"""What a Runner does about components that are lost or silent."""

from __future__ import annotations

import logging

import pytest

from sample_profiler.components.messages import TargetReached
from sample_profiler.errors import CommandError, ComponentLostError
from sample_profiler.runtime.commands.commands import CommandResult
from sample_profiler.runtime.messages.heartbeats import Heartbeat
from sample_profiler.runtime.processes.child import Finished
from sample_profiler.runtime.processes.failure import Failure
from tests.doubles.clocks import Clock
from tests.run.runner_doubles import FAILURE, FakeChild, FakeProcesses, FakeRescue


@pytest.fixture
def clock():
    return Clock()


def test_components_that_are_silent_for_too_long_are_told_and_told_again(make_runner, clock, caplog):
    runner = make_runner("--heartbeat_reporting_interval=20", clock=clock)
    status, *_ = runner.timers()

    def warnings_after(seconds, *heard):
        caplog.clear()
        for second in range(seconds):
            clock.now_s += 1
            if second == seconds - 1:
                runner.handle_reports([Heartbeat(component) for component in heard])
            status.callback()
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    assert warnings_after(100, "RolloutWorker_w0") == [], "nobody is expected to give signs of life"
    for component in ("Learner_0", "Batcher_0"):
        runner.guard.expect(component)
    assert warnings_after(1, "Learner_0", "Batcher_0") == []
    assert warnings_after(15, "Batcher_0") == []
    assert warnings_after(5) == ["Learner_0 has shown no sign of life for 20 s"]
    assert warnings_after(1, "Batcher_0") == []
    assert warnings_after(19, "Batcher_0") == ["Learner_0 has shown no sign of life for 40 s"]
    assert warnings_after(1, "Learner_0", "Batcher_0") == []
    assert warnings_after(19) == []
    assert runner.loop.num_stops == 0, "it may only be slow"


@pytest.fixture
def with_rescue(make_runner, clock):
    def make(*flags, **options):
        rescue = FakeRescue(**options)
        runner = make_runner(*flags, processes=FakeProcesses(rescue), clock=clock)
        runner.rescue = rescue
        return runner

    return make


def test_a_lost_worker_is_replaced_and_listened_to(with_rescue, caplog):
    runner = with_rescue()
    lost = FakeChild("RolloutWorker_w1", 41)
    runner._reports.append(lost.reports)
    runner._exits.append(lost.exit)
    runner.command_sender.members = [lost]
    runner._on_exits([lost])
    assert (runner.failure, runner.reason, runner.loop.num_stops, runner.loop.num_refreshes) == (None, "", 0, 1)
    assert [member.pid for member in runner.command_sender.members] == [42]
    sources = [entry.source for entry in runner.inputs()]
    assert lost.reports not in sources and lost.exit not in sources
    assert runner.command_sender.members[0].reports in sources and runner.command_sender.members[0].exit in sources
    assert "killed by signal 9 (SIGKILL). Process 42 takes its place (number 1 of at most 10 an hour)" in caplog.text


def test_the_recordings_of_lost_workers_do_not_become_more_and_more(with_rescue, monkeypatch):
    runner, added_up = with_rescue(), []
    monkeypatch.setattr(runner.records, "add_up_lost", added_up.append)
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    assert added_up == ["RolloutWorker_w1"]


def test_a_worker_has_not_finished_because_the_one_before_it_has(with_rescue):
    runner = with_rescue()
    runner._on_exits([FakeChild("RolloutWorker_w1", 1, FAILURE, Finished("RolloutWorker_w1", {"name": "x"}))])
    assert runner.failure is None
    assert not runner.ends.knows("RolloutWorker_w1")
    runner.handle_reports([Finished("RolloutWorker_w1", {"name": "y"})])
    assert runner.unrecorded == {"RolloutWorker_w1": {"name": "y"}}
    assert runner.ends.knows("RolloutWorker_w1")


def test_what_a_worker_raised_is_logged_at_once_and_is_why_it_is_lost(with_rescue, caplog):
    runner = with_rescue()
    runner.handle_reports([FAILURE])
    assert runner.failure is None, "it is replaced when its process has ended"
    assert "EnvError: environment 3 broke\nTraceback" in caplog.text
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    assert runner.rescue.noted == [FAILURE]


def test_a_worker_that_may_not_be_replaced_ends_the_run_and_it_is_said_why(with_rescue):
    runner = with_rescue(objection="too many")
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    assert runner.failure.message == "its process was killed by signal 9 (SIGKILL) (it is not replaced: too many)"
    assert runner.loop.num_stops == 1


@pytest.mark.parametrize("error", [CommandError("Batcher_0 did not answer"), BlockingIOError("no more processes")])
def test_a_worker_that_cannot_be_replaced_ends_the_run(with_rescue, error):
    runner = with_rescue(error=error)
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    assert "was killed by signal 9" in runner.failure.message
    assert f"it cannot be replaced: {error}" in runner.failure.message


def test_who_cannot_answer_for_a_replacement_since_it_has_ended_too_is_the_failure(with_rescue):
    runner = with_rescue(error=ComponentLostError("Batcher_0 cannot answer 'forget_worker' any more"))
    worker, batcher = FakeChild("RolloutWorker_w1"), FakeChild("Batcher_0")
    runner.rescue.await_ends = list
    runner.rescue.ended = [batcher]
    runner._on_exits([worker])
    assert runner.failure.component == "Batcher_0"
    assert "(lost in the same moment: RolloutWorker_w1: its process was killed" in runner.failure.message
    assert "cannot answer" not in runner.failure.message


def test_what_ends_in_one_moment_is_told_once(with_rescue, caplog):
    runner = with_rescue()
    runner.rescue.ended = [FakeChild("Batcher_0")]
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    assert runner.failure.component == "Batcher_0"
    assert all(map(runner.ends.knows, ("Batcher_0", "RolloutWorker_w1"))), "nobody looks for their ends any more"
    assert caplog.text.count("RolloutWorker_w1") == 1


def test_who_was_lost_with_one_that_cannot_be_replaced_is_told(with_rescue, caplog):
    runner = with_rescue(error=BlockingIOError("no more processes"))
    runner.rescue.ended = [FakeChild("RolloutWorker_w0")]
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    assert runner.failure.component == "RolloutWorker_w1"
    assert "RolloutWorker_w0 is lost while the run ends: its process was killed by signal 9" in caplog.text


def test_a_worker_that_is_not_replaced_since_the_run_ends_meanwhile_is_no_failure(with_rescue, caplog):
    runner = with_rescue()

    def end_meanwhile(*_):
        runner.interrupt("interrupted by SIGTERM")
        raise CommandError("Batcher_0 cannot answer 'forget_worker' any more: interrupted by SIGTERM")

    runner.rescue.replace = end_meanwhile
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    assert (runner.failure, runner.reason) == (None, "interrupted by SIGTERM")
    assert "RolloutWorker_w1 is lost while the run ends: its process was killed by signal 9" in caplog.text


def test_the_runner_shows_that_it_goes_on_while_it_waits_for_an_answer(make_runner, monkeypatch):
    runner = make_runner()
    beats, child = [], FakeChild("InferenceWorker_p0-w0")

    def beat():
        beats.append(None)
        if len(beats) == 5:
            (command,) = child.commands
            child.reports.send(CommandResult(command.number, child.name, 7, None))

    monkeypatch.setattr(runner._processes, "beat", beat)
    runner._reports.append(child.reports)
    runner.command_sender.members = [child]
    assert runner.call("forget_worker") == {child.name: 7}
    assert len(beats) >= 5


def test_who_hangs_while_a_worker_is_replaced_is_looked_into_and_ends_the_run(with_rescue, clock, monkeypatch):
    runner = with_rescue("--hang_timeout=60")
    stuck = runner.rescue.children["InferenceWorker_p0-w0"] = FakeChild("InferenceWorker_p0-w0")

    def beat():
        clock.now_s += 0.5
        stuck.lives = not stuck.num_kills

    monkeypatch.setattr(runner._processes, "beat", beat)
    runner.command_sender.members = [stuck]
    runner.guard.expect(stuck.name)
    runner.handle_reports([Heartbeat(stuck.name)])
    runner.rescue.replace = lambda _, asked, names: asked.call("forget_worker", (1,), names, 240.0)
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    lost = "(lost in the same moment: RolloutWorker_w1: its process was killed by signal 9 (SIGKILL))"
    assert runner.failure == Failure(stuck.name, f"silent for 60 s {lost}", "stacks")


def test_who_waits_for_components_looks_after_them_once_a_second(with_rescue, clock, monkeypatch):
    runner = with_rescue()
    looks = []
    look = runner.guard.look
    monkeypatch.setattr(runner.guard, "look", lambda: looks.append(look()))
    for _ in range(20):
        runner.take_reports()
        clock.now_s += 0.25
    assert len(looks) == 5
    runner.interrupt("enough")
    clock.now_s += 10
    runner.take_reports()
    assert len(looks) == 5, "nobody has to give signs of life any more"


def test_the_loss_of_any_other_component_ends_the_run(with_rescue):
    runner = with_rescue()
    runner.handle_reports([Failure("Learner_0", "ValueError: x", "Traceback")])
    assert runner.failure.component == "Learner_0"
    runner = with_rescue()
    runner._on_exits([FakeChild("Batcher_0")])
    assert runner.failure.component == "Batcher_0"


def test_a_component_that_hangs_is_looked_into_and_ended_once(with_rescue, clock, caplog):
    runner = with_rescue("--hang_timeout=5")
    status, *_ = runner.timers()
    child = runner.rescue.children["Learner_0"] = FakeChild("Learner_0")
    runner.guard.expect("Learner_0")
    runner.handle_reports([Heartbeat("Learner_0")])
    for _ in range(8):
        clock.now_s += 1
        status.callback()
    assert child.num_kills >= 1
    assert caplog.text.count("Learner_0 failed: silent for 5 s\nstacks") == 1
    assert runner.failure is None
    runner._on_exits([child])
    assert runner.failure == Failure("Learner_0", "silent for 5 s", "stacks")


def test_a_worker_that_has_failed_and_does_not_end_is_ended(with_rescue, clock):
    runner = with_rescue()
    status, *_ = runner.timers()
    child = runner.rescue.children["RolloutWorker_w1"] = FakeChild("RolloutWorker_w1")
    runner.handle_reports([FAILURE])
    for expected in (0, 0, 0, 1):
        clock.now_s += 1
        status.callback()
        assert child.num_kills == expected


def test_a_worker_that_fails_while_the_run_ends_is_told_and_costs_nothing(with_rescue, caplog):
    """As one that is killed then."""
    runner = with_rescue()
    runner.handle_reports([TargetReached(0), FAILURE])
    assert runner.failure is None
    assert "EnvError: environment 3 broke" in caplog.text
    assert runner.ends.knows(FAILURE.component)


def test_who_asks_a_component_that_is_lost_is_not_to_blame(make_runner, caplog):
    def ask(runner, _):
        raise ComponentLostError("RolloutWorker_w1 cannot answer")

    runner = make_runner()
    runner.register_message_handler(TargetReached, ask)
    runner.handle_reports([TargetReached(0)] * 12)
    runner.finish()
    assert runner.failure is None
    warning = "asked too late: RolloutWorker_w1 cannot answer"
    assert caplog.text.count(warning) == 2, "the first and the tenth time"


def test_a_run_that_has_lost_workers_and_trained_nothing_has_failed(with_rescue):
    runner = with_rescue()
    runner.judge()
    assert runner.failure is None
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    runner._end("the run has trained for as many seconds as asked")
    runner.judge()
    assert runner.failure == Failure("RolloutWorker_w1", "its process was killed by signal 9 (SIGKILL)", "")


@pytest.mark.parametrize("end", ["trained", "interrupted"])
def test_a_run_that_has_lost_workers_and_has_trained_or_was_interrupted_has_not(with_rescue, end):
    runner = with_rescue()
    runner._on_exits([FakeChild("RolloutWorker_w1")])
    if end == "trained":
        runner.counters.training_iterations[0] = 1
    else:
        runner.interrupt("interrupted by SIGINT")
    runner.judge()
    assert runner.failure is None
