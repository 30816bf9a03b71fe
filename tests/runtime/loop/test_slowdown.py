"""Stages that are slower on purpose."""

from __future__ import annotations

import math

import pytest

from sample_profiler.runtime.loop import slowdown as slowdown_module
from sample_profiler.runtime.loop.slowdown import Slowdown, slowdown_command


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        """Wall and processor time, of which looking takes some; in microseconds to others."""

        now_ns = 10_000
        computed_ns = 0
        delayed_ns = 0
        sleeps_us = ()

        def perf_counter_ns(self):
            return self.now_ns

        def thread_time_ns(self):
            self.compute(0.01)
            return self.computed_ns

        def look_for_delay(self):
            self.compute(7)
            return self.delayed_ns

        def compute(self, us):
            self.now_ns += round(us * 1000)
            self.computed_ns += round(us * 1000)

        def starve(self, us):
            self.now_ns += us * 1000
            self.delayed_ns += us * 1000

        def wait(self, us):
            self.now_ns += us * 1000

        def sleep(self, seconds):
            self.sleeps_us += (round(seconds * 1e6),)
            self.wait(round(seconds * 1e6) + 50)

    clock = Clock()
    for name in ("perf_counter_ns", "thread_time_ns", "sleep"):
        monkeypatch.setattr(slowdown_module.time, name, getattr(clock, name))
    monkeypatch.setattr(slowdown_module, "_delayed_ns", clock.look_for_delay)
    return clock


@pytest.fixture
def do_passes(clock):
    """Return how much longer passes of a stage that is slowed by half became on average, and of what."""

    def do(num=1, *, computes_us=0, waits_us=0, starves_us=0):
        slowdown = Slowdown()
        slowdown.set(0.5, 100)
        now_ns, computed_ns, delayed_ns = clock.now_ns, clock.computed_ns, clock.delayed_ns

        def work():
            clock.compute(computes_us)
            clock.wait(waits_us)
            clock.starve(starves_us)

        for _ in range(num):
            slowdown.around(work)
        more_computed_us = (clock.computed_ns - computed_ns) / num / 1000 - computes_us
        passed_ns = clock.now_ns - now_ns - (clock.computed_ns - computed_ns) - (clock.delayed_ns - delayed_ns)
        return more_computed_us, passed_ns / num / 1000 - waits_us

    return do


def test_a_stage_that_computes_gets_more_to_compute(do_passes, clock):
    assert do_passes(computes_us=2000, starves_us=3000) == pytest.approx((1000, 0), abs=1)
    assert clock.sleeps_us == (), "without a processor is not waiting"


def test_a_stage_that_waits_waits_longer(do_passes):
    computed_us, waited_us = do_passes(10, waits_us=2000)
    assert computed_us <= 25, "what it takes to look"
    assert waited_us == pytest.approx(1000, abs=10)


@pytest.mark.parametrize("computes_us", [240, 260, 300, 500, 900])
def test_a_stage_that_does_both_gets_as_much_more_of_both(do_passes, computes_us):
    waits_us = 1000 - computes_us
    more = do_passes(100, computes_us=computes_us, waits_us=waits_us, starves_us=400)
    assert more == pytest.approx((computes_us / 2, waits_us / 2), abs=5)


def test_waits_too_short_for_a_sleep_are_made_up_for_together(do_passes, clock):
    assert do_passes(100, computes_us=100, waits_us=60) == pytest.approx((50, 30), abs=2)
    assert len(clock.sleeps_us) < 20 and min(clock.sleeps_us) >= 200


def test_a_sleep_that_took_seconds_is_not_made_up_for_by_as_many(do_passes, clock, monkeypatch):
    monkeypatch.setattr(
        slowdown_module.time,
        "sleep",
        lambda seconds: clock.wait(10**7 if not clock.sleeps_us else 0) or clock.sleep(seconds),
    )
    do_passes(1000, waits_us=1000)
    assert sum(clock.sleeps_us) == pytest.approx(400_000, rel=0.2), "100 ms less than half of what it waited"


def test_a_stage_that_is_not_slowed_is_called_and_no_clock_is_looked_at(clock):
    before = vars(clock).copy()
    assert Slowdown().around(divmod, 7, 2) == (3, 1)
    assert vars(clock) == before


def test_it_ends_by_itself(clock):
    slowdown = Slowdown()
    slowdown.set(0.5, 1)
    slowdown.around(clock.wait, 2 * 10**6)
    assert slowdown.share == 0
    assert clock.sleeps_us == ()


def test_a_wait_that_is_owed_is_none_of_the_next_slowdown(clock):
    slowdown = Slowdown()
    for _ in range(10):
        slowdown.set(0.5, 100)
        slowdown.around(clock.wait, 100)
    assert clock.sleeps_us == ()


def test_the_delay_of_this_thread_is_told_where_the_system_does(monkeypatch):
    assert slowdown_module._delayed_ns() >= 0
    monkeypatch.setattr(slowdown_module, "read_at_once", lambda *_: (_ for _ in ()).throw(FileNotFoundError))
    assert slowdown_module._delayed_ns() == 0


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
