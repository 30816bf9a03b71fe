"""Signs of life, and who finds out that they have stopped."""

from __future__ import annotations

import time

import pytest

from sample_profiler.runtime.messages import heartbeats
from sample_profiler.runtime.messages.channels import LocalReports
from sample_profiler.runtime.messages.heartbeats import FIRST_SIGN_S, Heartbeat, Pulse, RunnerPulse, Silences
from tests.doubles.clocks import Clock


@pytest.fixture
def clock():
    return Clock()


def names(found):
    return [name for name, _ in found]


def test_a_component_that_was_heard_is_lost_after_the_limit(clock):
    silences = Silences(report_after_s=100, lost_after_s=5, clock=clock)
    silences.expect("Learner_0")
    silences.hear(Heartbeat("Learner_0"))
    found = clock.pass_time(6, silences.look)
    assert [names(lost) for _, lost in found] == [[], [], [], [], ["Learner_0"], ["Learner_0"]]
    assert found[4][1] == [("Learner_0", pytest.approx(5))]
    silences.forget("Learner_0")
    assert silences.look() == ([], [])


def test_a_component_has_longer_for_its_first_sign_of_life(clock):
    silences = Silences(report_after_s=1000, lost_after_s=5, clock=clock)
    silences.expect("Learner_0")
    found = clock.pass_time(round(FIRST_SIGN_S), silences.look)
    assert [bool(lost) for _, lost in found] == [False] * (round(FIRST_SIGN_S) - 1) + [True]


def test_a_component_has_longer_to_make_its_environments_where_many_do(clock):
    silences = Silences(report_after_s=1000, lost_after_s=5, start_s=8, clock=clock)
    for component in ("Starting", "Pausing", "Working"):
        silences.expect(component)
    silences.hear(Heartbeat("Starting", is_starting=True))
    silences.hear(Heartbeat("Pausing", 3.0, is_starting=True))
    silences.hear(Heartbeat("Working"))
    found = clock.pass_time(11, silences.look)
    seconds = {
        name: sum(name not in names(lost) for _, lost in found) + 1 for name in ("Starting", "Pausing", "Working")
    }
    assert seconds == {"Starting": 8, "Pausing": 11, "Working": 5}


def test_who_has_not_begun_to_work_yet_is_known(clock):
    silences = Silences(report_after_s=1000, lost_after_s=5, clock=clock)
    for component in ("Learner_0", "Batcher_0", "RolloutWorker_w0"):
        silences.expect(component)
    silences.hear(Heartbeat("Learner_0"))
    silences.hear(Heartbeat("Learner_0", 60.0))
    silences.hear(Heartbeat("RolloutWorker_w0", is_starting=True))  # makes its first environment
    silences.forget("Batcher_0")
    assert silences.starting == {"RolloutWorker_w0"}
    silences.forget("Learner_0")
    silences.expect("Learner_0")  # another process in its place
    assert silences.starting == {"RolloutWorker_w0", "Learner_0"}


def test_a_component_may_ask_for_patience_until_its_next_sign_of_life(clock):
    silences = Silences(report_after_s=1000, lost_after_s=5, clock=clock)
    silences.expect("Learner_0")
    silences.hear(Heartbeat("Learner_0", patience_s=30))
    assert not any(lost for _, lost in clock.pass_time(29, silences.look))
    silences.hear(Heartbeat("Learner_0"))
    assert names(clock.pass_time(5, silences.look)[-1][1]) == ["Learner_0"]


def test_time_in_which_the_listener_itself_was_away_does_not_count(clock):
    """A virtual machine that is paused stops everybody."""
    silences = Silences(report_after_s=20, lost_after_s=60, clock=clock)
    silences.expect("Learner_0")
    silences.hear(Heartbeat("Learner_0"))
    clock.now_s += 3600
    assert silences.look() == ([], [])
    assert not any(late or lost for late, lost in clock.pass_time(14, silences.look))
    assert names(clock.pass_time(1, silences.look)[0][0]) == ["Learner_0"]


def test_who_was_heard_while_the_listener_was_away_has_no_longer_for_the_next_sign(clock):
    silences = Silences(report_after_s=100, lost_after_s=5, clock=clock)
    silences.expect("Learner_0")
    clock.now_s += 30
    silences.hear(Heartbeat("Learner_0"))
    clock.now_s += 1
    assert silences.look() == ([], [])
    found = clock.pass_time(5, silences.look)
    assert [names(lost) for _, lost in found] == [[], [], [], [], ["Learner_0"]]


def test_a_pulse_beats_at_most_once_a_second(clock):
    reports = LocalReports()
    pulse = Pulse("Learner_0", reports, clock)
    for _ in range(40):
        pulse.beat()
        clock.now_s += 0.1
    assert reports.receive() == [Heartbeat("Learner_0")] * 4
    pulse.beat(patience_s=9)
    pulse.beat()
    assert reports.receive() == [Heartbeat("Learner_0", 9), Heartbeat("Learner_0")], "the wait is over at once"
    for _ in range(40):
        pulse.beat(patience_s=9)
        clock.now_s += 0.1
    assert reports.receive() == [Heartbeat("Learner_0", 9)] * 4


def test_a_pulse_beats_by_itself_while_the_kernel_is_waited_for(monkeypatch):
    monkeypatch.setattr(heartbeats, "_PULSE_S", 0.001)
    reports, received = LocalReports(), []
    pulse = Pulse("Learner_0", reports)
    end_s = time.monotonic() + 30
    with pulse.beating(limit_s=60):
        while len(received) < 3 and time.monotonic() < end_s:
            time.sleep(0.002)
            received += reports.receive()
    assert received[:3] == [Heartbeat("Learner_0")] * 3
    reports.receive()
    time.sleep(0.02)
    assert reports.receive() == [], "it is over"


def test_a_pulse_does_not_beat_by_itself_for_ever(monkeypatch):
    monkeypatch.setattr(heartbeats, "_PULSE_S", 0.001)
    reports = LocalReports()
    with Pulse("Learner_0", reports).beating(limit_s=0):
        time.sleep(0.02)
    assert reports.receive() == []


def test_the_runner_beats_by_itself_while_the_kernel_is_waited_for(monkeypatch):
    monkeypatch.setattr(heartbeats, "_PULSE_S", 0.001)
    runner, end_s = RunnerPulse(), time.monotonic() + 30
    with runner.beating(limit_s=60):
        while not runner.silent_s() and time.monotonic() < end_s:
            time.sleep(0.002)
    assert runner.silent_s() > 0


def test_a_silent_runner_is_only_believed_after_several_looks(clock):
    runner = RunnerPulse(clock.ns)
    is_silent = runner.make_watch(10)
    assert not any(is_silent() for _ in range(9)), "it has not begun yet"
    assert runner.silent_s() == 0
    runner.beat()
    clock.now_s += 11
    assert runner.silent_s() == pytest.approx(11)
    assert [is_silent() for _ in range(3)] == [False, False, True]
    runner.beat()
    assert [is_silent() for _ in range(3)] == [False] * 3
