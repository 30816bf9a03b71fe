"""The Guard alone; tests/components/test_runner.py has it together with the Runner."""

from __future__ import annotations

import time

import pytest

from sample_profiler.components.guard import Guard
from sample_profiler.config import parse_config
from sample_profiler.runtime.failure import Failure, FailureLog
from sample_profiler.runtime.heartbeats import Heartbeat

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

    def covers(self, component):
        return component.startswith("RolloutWorker")

    def find_objection(self, _):
        return self.objection

    def note(self, failure):
        self.noted.append(failure)

    def find(self, component):
        return self.processes.get(component)

    def locate(self, component):
        return f"{component}'s block for 2 s" if component in self.processes else ""

    def examine(self, process, silent_s):
        return Failure(process.name, f"silent for {silent_s:g} s", "")


class Calls:
    """A Guard, and what it has had done."""

    def __init__(self, rescue, *flags):
        self.failed, self.replaced = [], []
        config = parse_config(["--env=none", *flags])
        self.guard = Guard(
            config,
            self.failed.append,
            lambda process, failure, _: self.replaced.append((process, failure)),
            FailureLog(),
        )
        self.guard.rescue = rescue


def test_without_rescue_every_failure_is_that_of_the_run():
    calls = Calls(None)
    calls.guard.take_failure(FAILURE)
    calls.guard.take_exit(Process("RolloutWorker_w0"))
    assert calls.failed == [FAILURE, Failure("RolloutWorker_w0", "its process was killed", "")]
    assert not calls.replaced


def test_a_lost_worker_is_replaced_for_the_first_reason_that_it_gave():
    calls, process = Calls(Rescue()), Process("RolloutWorker_w0")
    calls.guard.take_failure(FAILURE)
    calls.guard.take_failure(Failure("RolloutWorker_w0", "a consequence", ""))
    assert not calls.failed and not calls.replaced
    calls.guard.take_exit(process)
    assert calls.replaced == [(process, FAILURE)]
    assert calls.guard.rescue.noted == [FAILURE]
    calls.guard.take_exit(process)
    assert calls.replaced[1][1].message == "its process was killed", "what it said before was for its predecessor"


def test_an_objection_ends_the_run_and_is_told():
    calls = Calls(Rescue("too many"))
    calls.guard.take_exit(Process("RolloutWorker_w0"))
    assert [failure.message for failure in calls.failed] == ["its process was killed (it is not replaced: too many)"]


def test_other_components_are_not_replaced():
    calls = Calls(Rescue())
    calls.guard.take_exit(Process("Learner_0"))
    assert [failure.component for failure in calls.failed] == ["Learner_0"]


@pytest.mark.parametrize("answers", [True, False])
def test_who_is_silent_for_too_long_is_ended_and_who_answers_is_not(answers: bool, monkeypatch, caplog):
    rescue = Rescue()
    calls = Calls(rescue, "--hang_timeout=3", "--heartbeat_interval=1", "--heartbeat_reporting_interval=2")
    process = rescue.processes["Learner_0"] = Process("Learner_0")
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    calls.guard.expect("Learner_0")
    for _ in range(5):
        calls.guard.hear(Heartbeat("Learner_0"))
        now_s += 1
        calls.guard.look()
    for _ in range(5):
        if answers:
            calls.guard.hear(Heartbeat("Learner_0"))
        now_s += 1
        calls.guard.look()
    assert (process.num_kills > 0) != answers
    assert ("has shown no sign of life" in caplog.text) != answers
    if not answers:
        assert "Learner_0 has shown no sign of life for 2 s: it is in Learner_0's block for 2 s" in caplog.text


@pytest.mark.parametrize("dies", [True, False])
def test_who_cannot_even_be_killed_ends_the_run(dies, monkeypatch):
    calls = Calls(Rescue(), "--hang_timeout=3", "--heartbeat_interval=1")
    process = calls.guard.rescue.processes["RolloutWorker_w0"] = Process("RolloutWorker_w0")
    process.dies = dies
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    calls.guard.take_failure(FAILURE)
    for _ in range(30):
        now_s += 1
        calls.guard.look()
    message = "EnvError: broke (it cannot even be killed)"
    assert [failure.message for failure in calls.failed] == ([] if dies else [message])


def test_who_has_finished_is_expected_no_more(monkeypatch):
    rescue = Rescue()
    calls = Calls(rescue, "--hang_timeout=3", "--heartbeat_interval=1")
    process = rescue.processes["Learner_0"] = Process("Learner_0")
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    calls.guard.expect("Learner_0")
    calls.guard.hear(Heartbeat("Learner_0"))
    calls.guard.forget("Learner_0")
    now_s += 60
    calls.guard.look()
    assert process.num_kills == 0
