"""Stages that are slower on purpose."""

from __future__ import annotations

import math

import pytest

from sample_profiler.runtime import slowdown as slowdown_module
from sample_profiler.runtime.slowdown import Slowdown, slowdown_command


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        """Wall and processor time, of which looking takes some."""

        now_ns = 10_000
        computed_ns = 0

        def perf_counter_ns(self):
            return self.now_ns

        def thread_time_ns(self):
            self.compute(10)
            return self.computed_ns

        def compute(self, ns):
            self.now_ns += ns
            self.computed_ns += ns

        def sleep(self, seconds):
            self.now_ns += round(seconds * 1e9)

    clock = Clock()
    for name in ("perf_counter_ns", "thread_time_ns", "sleep"):
        monkeypatch.setattr(slowdown_module.time, name, getattr(clock, name))
    return clock


def test_a_stage_that_computes_gets_more_to_compute(clock):
    slowdown = Slowdown()
    slowdown.set(0.5, 100)
    begin = slowdown.begin()
    clock.compute(2000)
    clock.now_ns += 3000  # without a processor
    slowdown.add_to(begin)
    assert clock.computed_ns - begin[1] == pytest.approx(3000, abs=50)


def test_a_stage_that_waits_waits_longer(clock):
    slowdown = Slowdown()
    slowdown.set(0.5, 100)
    begin = slowdown.begin()
    clock.compute(100)
    clock.sleep(2e-6)
    slowdown.add_to(begin)
    assert clock.now_ns - begin[0] == pytest.approx(3150, abs=50)
    assert clock.computed_ns - begin[1] == pytest.approx(100, abs=50)


def test_it_ends_by_itself(clock):
    slowdown = Slowdown()
    slowdown.set(0.5, 1)
    begin = slowdown.begin()
    clock.now_ns += 2 * 10**9
    slowdown.add_to(begin)
    assert slowdown.share == 0
    assert clock.now_ns < 2 * 10**9 + 20_000


@pytest.mark.parametrize(("share", "seconds"), [(-1, 1), (11, 1), (1, -1), (1, 601), (math.nan, 1), (math.inf, 1)])
def test_what_makes_no_sense_is_refused(share, seconds):
    with pytest.raises(ValueError, match="at most 10 and 600"):
        Slowdown().set(share, seconds)


def test_a_component_has_its_own_stages_alone():
    slowdown = Slowdown()
    command = slowdown_command({"env": slowdown})
    command("env", 0.25, 5.0)
    assert slowdown.share == 0.25
    with pytest.raises(ValueError, match="no stage 'learner' here; there are env"):
        command("learner", 0.25, 5.0)
