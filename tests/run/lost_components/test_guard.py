"""The Guard alone; tests/run/test_runner.py has it together with the Runner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_profiler.config import parse_config
from sample_profiler.run.lost_components.guard import Guard
from sample_profiler.runtime.messages.heartbeats import Heartbeat
from sample_profiler.runtime.processes.failure import Failure, FailureLog
from tests.doubles.clocks import Clock

FAILURE = Failure("RolloutWorker_w0", "EnvError: broke", "Traceback")


class Process:
    """A child that has ended, or is to be killed."""

    def __init__(self, name):
        self.name, self.num_kills, self.dies = name, 0, True

    def describe_exit(self):
        return "was killed"

    def kill(self):
        self.num_kills += 1

    def is_alive(self):
        return not (self.dies and self.num_kills)


class Rescue:
    """Replaces RolloutWorkers, unless it has something against it."""

    def __init__(self, objection=None):
        self.replacements, self.objection, self.noted, self.processes = self, objection, [], {}
        self.ended = []
        self.num_releases = 0

    def release_locks(self):
        self.num_releases += 1

    def covers(self, component):
        return component.startswith("RolloutWorker")

    def find_objection(self, _):
        return self.objection

    def note(self, failure):
        self.noted.append(failure)

    def await_ends(self, processes):
        return [*processes, *self.ended]

    def find_ended(self):
        return self.ended

    def explain(self, failure):
        return replace(failure, message=f"{failure.message} (explained)") if failure.lacks_memory else failure

    def explain_end(self, process, *, tells_all):
        return Failure(process.name, f"its process was {'fully ' if tells_all else ''}killed", "")

    def find(self, component):
        return self.processes.get(component)

    def locate(self, component):
        return f"{component}'s block for 2 s" if component in self.processes else ""

    def examine(self, process, silent_s):
        return Failure(process.name, f"silent for {silent_s:g} s", "")


class Calls:
    """A Guard, and what it has had done."""

    def __init__(self, rescue, *flags):
        self.failed, self.replaced, self.clock = [], [], Clock()
        config = parse_config(["--env=none", *flags])
        self.guard = Guard(
            config,
            self.failed.append,
            lambda process, failure, _: self.replaced.append((process, failure)),
            FailureLog(),
            rescue,
            self.clock,
        )
        self.rescue = rescue


def test_without_other_processes_every_failure_is_that_of_the_run():
    calls = Calls(None)
    calls.guard.take_failure(FAILURE)
    assert calls.failed == [FAILURE]
    assert not calls.replaced


def test_a_lost_worker_is_replaced_for_the_first_reason_that_it_gave():
    calls, process = Calls(Rescue()), Process("RolloutWorker_w0")
    calls.guard.take_failure(FAILURE)
    calls.guard.take_failure(Failure("RolloutWorker_w0", "a consequence", ""))
    assert not calls.failed and not calls.replaced
    calls.guard.take_exits([process])
    assert calls.replaced == [(process, FAILURE)]
    assert calls.rescue.noted == [FAILURE]
    calls.guard.take_exits([process])
    assert calls.replaced[1][1].message == "its process was fully killed", "what it said before was for its predecessor"


def test_where_native_code_has_crashed_is_told_once_with_the_loss(caplog):
    calls, process = Calls(Rescue()), Process("RolloutWorker_w0")
    crash = Failure(process.name, "its process was killed by signal 11 (SIGSEGV)", 'File "here.py"', is_crash=True)
    calls.rescue.explain_end = lambda _, *, tells_all: crash
    calls.guard.take_exits([process])
    assert calls.replaced == [(process, crash)]
    assert [record.getMessage() for record in caplog.records] == [
        'RolloutWorker_w0 failed: its process was killed by signal 11 (SIGSEGV)\nFile "here.py"'
    ]
    caplog.clear()
    calls.guard.take_failure(FAILURE)
    calls.guard.take_exits([process])
    assert caplog.text.count("EnvError: broke") == 1, "what was told already is not told again"


def test_an_objection_ends_the_run_and_is_told():
    calls = Calls(Rescue("too many"))
    calls.guard.take_exits([Process("RolloutWorker_w0")])
    assert [failure.message for failure in calls.failed] == [
        "its process was fully killed (it is not replaced: too many)"
    ]


def test_other_components_are_not_replaced():
    calls = Calls(Rescue())
    calls.guard.take_exits([Process("Learner_0")])
    assert [failure.component for failure in calls.failed] == ["Learner_0"]


def test_several_that_end_in_one_moment_are_one_failure_if_one_of_them_is_essential():
    calls = Calls(Rescue())
    calls.rescue.ended = [Process("Batcher_0"), Process("RolloutWorker_w1")]
    ended = calls.guard.await_ends([Process("RolloutWorker_w0")])
    calls.guard.take_exits(ended)
    (failure,) = calls.failed
    assert failure.component == "Batcher_0"
    assert failure.message == (
        "its process was fully killed (lost in the same moment: RolloutWorker_w0: its process was killed; "
        "RolloutWorker_w1: its process was killed)"
    )
    assert not calls.replaced


def test_workers_that_end_in_one_moment_are_replaced_one_after_the_other():
    calls = Calls(Rescue())
    workers = [Process("RolloutWorker_w0"), Process("RolloutWorker_w1")]
    calls.guard.take_exits(workers)
    assert [process for process, _ in calls.replaced] == workers
    assert not calls.failed


def test_after_an_objection_to_one_no_other_is_replaced():
    calls = Calls(Rescue("too many"))
    calls.guard.take_exits([Process("RolloutWorker_w0"), Process("RolloutWorker_w1")])
    assert [failure.component for failure in calls.failed] == ["RolloutWorker_w0"]


def test_who_cannot_answer_since_it_has_ended_too_is_told_with_whoever_was_to_be_replaced():
    calls = Calls(Rescue())
    assert calls.guard.find_essential(FAILURE) is None
    calls.rescue.ended = [Process("RolloutWorker_w1"), Process("Batcher_0"), Process("Learner_0")]
    essential = calls.guard.find_essential(FAILURE)
    assert essential.component == "Batcher_0"
    assert essential.message == (
        "its process was fully killed (lost in the same moment: Learner_0: its process was killed; RolloutWorker_w0: "
        "EnvError: broke)"
    )


def test_what_a_component_lacked_is_added_to_what_it_told():
    calls = Calls(Rescue())
    calls.guard.take_failure(Failure("Learner_0", "MemoryError", "", was_raised=True, lacks_memory=True))
    assert [failure.message for failure in calls.failed] == ["MemoryError (explained)"]


def test_what_lost_processes_had_locked_is_opened_again_and_again():
    rescue = Rescue()
    guard = Calls(rescue).guard
    guard.look()
    guard.look()
    assert rescue.num_releases == 2


@pytest.mark.parametrize("answers", [True, False])
def test_who_is_silent_for_too_long_is_ended_and_who_answers_is_not(answers: bool, caplog):
    rescue = Rescue()
    calls = Calls(rescue, "--hang_timeout=3", "--heartbeat_interval=1", "--heartbeat_reporting_interval=2")
    process = rescue.processes["Learner_0"] = Process("Learner_0")
    calls.guard.expect("Learner_0")
    for _ in range(5):
        calls.guard.hear(Heartbeat("Learner_0"))
        calls.clock.now_s += 1
        calls.guard.look()
    for _ in range(5):
        if answers:
            calls.guard.hear(Heartbeat("Learner_0"))
        calls.clock.now_s += 1
        calls.guard.look()
    assert (process.num_kills > 0) != answers
    assert ("has shown no sign of life" in caplog.text) != answers
    if not answers:
        assert "Learner_0 has shown no sign of life for 2 s: it is in Learner_0's block for 2 s" in caplog.text


@pytest.mark.parametrize("dies", [True, False])
def test_who_cannot_even_be_killed_ends_the_run(dies):
    calls = Calls(Rescue(), "--hang_timeout=3", "--heartbeat_interval=1")
    process = calls.rescue.processes["RolloutWorker_w0"] = Process("RolloutWorker_w0")
    process.dies = dies
    calls.guard.take_failure(FAILURE)
    for _ in range(30):
        calls.clock.now_s += 1
        calls.guard.look()
    message = "EnvError: broke (it cannot even be killed)"
    assert [failure.message for failure in calls.failed] == ([] if dies else [message])


def test_who_has_finished_is_expected_no_more():
    rescue = Rescue()
    calls = Calls(rescue, "--hang_timeout=3", "--heartbeat_interval=1")
    process = rescue.processes["Learner_0"] = Process("Learner_0")
    calls.guard.expect("Learner_0")
    calls.guard.hear(Heartbeat("Learner_0"))
    calls.guard.forget("Learner_0")
    calls.clock.now_s += 60
    calls.guard.look()
    assert process.num_kills == 0


def test_the_run_goes_on_without_a_component_that_may_be_lost(caplog):
    calls, process, let_go = Calls(Rescue()), Process("Mine"), []
    calls.guard.go_on_without({"Mine"}, lambda lost, _: let_go.append(lost))
    calls.guard.take_failure(Failure("Mine", "ValueError: mine", ""))
    calls.guard.take_exits([process])
    assert not calls.failed and not calls.replaced
    assert let_go == [process]
    assert caplog.text.count("Mine is lost: the run goes on without it") == 1
    calls.guard.take_exits([Process("Mine"), Process("Learner_0")])
    assert [failure.component for failure in calls.failed] == ["Learner_0"]
