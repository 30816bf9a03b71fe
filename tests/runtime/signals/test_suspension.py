"""A process finds out that it stood still, by clocks that the test moves on."""

from __future__ import annotations

import threading

import pytest

from sample_profiler.runtime.signals.suspension import StandstillWatch, StoodStill, looking


class Clocks:
    def __init__(self):
        self.now_s = self.work_s = 100.0
        self.watch = StandstillWatch("Learner_0", lambda: self.now_s, lambda: self.work_s)

    def look_after(self, passed_s, worked_s=0.0):
        self.now_s += passed_s
        self.work_s += worked_s
        return self.watch.look()


@pytest.fixture
def clocks():
    return Clocks()


def test_a_look_that_comes_late_though_nothing_was_done_is_after_a_standstill(clocks):
    assert clocks.look_after(1.0) is None
    assert clocks.look_after(13.0, worked_s=0.3) == StoodStill("Learner_0", 102.0, 114.0)
    assert clocks.look_after(1.0) is None, "it is told once"


@pytest.mark.parametrize(("passed_s", "worked_s"), [(1.0, 0.0), (3.9, 0.0), (30.0, 25.0), (30.0, 6.0)])
def test_a_look_that_comes_late_on_a_busy_machine_or_in_a_busy_process_is_not(clocks, passed_s, worked_s):
    assert clocks.look_after(passed_s, worked_s) is None


def test_looks_come_from_a_thread_until_it_is_over(monkeypatch):
    monkeypatch.setattr("sample_profiler.runtime.signals.suspension.LOOK_INTERVAL_S", 0.01)
    looked, threads = threading.Event(), []

    def look():
        threads.append(threading.current_thread())
        looked.set()

    with looking(look):
        assert looked.wait(30)
    assert threads[0] is not threading.current_thread()
    assert not threads[0].is_alive()
