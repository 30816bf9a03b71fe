"""Stages that are slower on purpose."""

from __future__ import annotations

import math

import pytest

from sample_profiler.runtime import slowdown as slowdown_module
from sample_profiler.runtime.slowdown import Slowdown, slowdown_command


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now_ns = 0

        def perf_counter_ns(self):
            self.now_ns += 10
            return self.now_ns

    clock = Clock()
    monkeypatch.setattr(slowdown_module.time, "perf_counter_ns", clock.perf_counter_ns)
    return clock


def test_a_pass_takes_longer_by_its_share(clock):
    slowdown = Slowdown()
    slowdown.set(0.5, 100)
    clock.now_ns = begin_ns = 10_000
    clock.now_ns += 2000
    slowdown.add_to(begin_ns)
    assert clock.now_ns - begin_ns == pytest.approx(3000, abs=50)


def test_it_ends_by_itself(clock):
    slowdown = Slowdown()
    slowdown.set(0.5, 1)
    clock.now_ns = 2 * 10**9
    slowdown.add_to(clock.now_ns - 1000)
    assert slowdown.share == 0
    assert clock.now_ns < 2 * 10**9 + 100


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
