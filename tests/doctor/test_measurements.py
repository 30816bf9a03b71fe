"""Figures of an examination: times and their tails, growth."""

from __future__ import annotations

import numpy as np
import pytest

from sample_profiler.doctor.measurements import CallTimes, growth_of

MS = 1_000_000


def collected(calls):
    times = CallTimes()
    for wall, cpu, delay in calls:
        times.add(wall, cpu, delay)
    return times


def times_of(calls):
    return collected(calls).summary(0)


def test_rare_slow_calls_stand_out_and_what_others_took_of_the_processor_does_not():
    slow = times_of([(41 * MS if number % 100 == 50 else MS, 0, 0) for number in range(1000)])
    assert (slow.num_slow, slow.is_slow_throughout) == (10, True)
    assert slow.slow_share == pytest.approx(410 / 1400)
    preempted = times_of(
        [(41 * MS if number % 100 == 50 else MS, MS, 40 * MS * (number % 100 == 50)) for number in range(1000)]
    )
    assert preempted.num_slow == 0
    assert preempted.mean_ns == MS


def test_a_slow_phase_is_no_tail_of_the_whole():
    summary = times_of([(20 * MS if number < 3 else MS, 0, 0) for number in range(1000)])
    assert (summary.num_slow, summary.is_slow_throughout) == (3, False)


def test_sleep_is_what_is_neither_computing_nor_waiting_for_a_processor():
    summary = times_of([(10 * MS, 2 * MS, 3 * MS)] * 5)
    assert summary.asleep_share == pytest.approx(0.5)


def test_calls_that_compute_longer_on_a_machine_that_becomes_slower_are_not_slower_themselves():
    pace = collected([(10_000 + 20 * number, 10_000 + 20 * number, 0) for number in range(1000)])
    times_ns = [MS + MS * number // 500 for number in range(1000)]
    computing = collected([(time_ns, time_ns, 0) for time_ns in times_ns])
    assert computing.summary(0).medians_ns[-1] > 2 * MS
    beside = computing.summary(0, pace).medians_ns
    assert max(beside) < 1.01 * min(beside) and beside[0] == pytest.approx(computing.summary(0).mean_ns, rel=0.1)
    waiting = collected([(time_ns, 0, 0) for time_ns in times_ns])
    assert waiting.summary(0, pace).medians_ns == waiting.summary(0).medians_ns, (
        "time asleep is the same on any machine"
    )


def test_nothing_is_said_of_no_calls():
    assert CallTimes().summary(10) is None


def test_growth_is_told_from_a_cache_that_is_filled_once_and_from_noise():
    steps = list(range(0, 4000, 100))
    noise = np.random.default_rng(1).normal(0, 200, len(steps))
    leak = growth_of(steps, [10.0 * step for step in steps] + noise)
    assert leak.per_step == pytest.approx(10, rel=0.1)
    assert leak.share_of_rises > 0.9
    filled = growth_of(steps, [40_000.0 if step > 2000 else 0.0 for step in steps] + noise)
    assert filled.share_of_rises < 0.75
    assert growth_of([1, 2, 3], [1.0, 2.0, 3.0]) is None
