"""What a soak says of a run: growth of memory, and throughput at the end against that at the beginning."""

from __future__ import annotations

import pytest

from benchmarks.soak import Moment, evaluate


def moments(memory_of, fps_of, minutes=60):
    frames, seen = 0.0, []
    for index in range(minutes * 6):
        seen.append(Moment(10.0 * index, frames, memory_of(index / 6), 1.0))
        frames += 10 * fps_of(index / 6)
    return seen


def test_memory_that_grows_only_at_first_does_not_count():
    figures = evaluate(moments(lambda minute: 500 + 100 * min(minute, 4), lambda minute: 1000))
    assert figures["memory_mib_per_minute"] == pytest.approx(0)
    assert figures["last_to_first"] == pytest.approx(1)


def test_memory_that_leaks_is_seen_by_the_minute():
    figures = evaluate(moments(lambda minute: 500 + 2.5 * minute, lambda minute: 1000))
    assert figures["memory_mib_per_minute"] == pytest.approx(2.5)


def test_a_run_that_becomes_slower_is_seen():
    figures = evaluate(moments(lambda minute: 500, lambda minute: 1000 if minute < 30 else 900))
    assert figures["last_to_first"] == pytest.approx(0.9)


def test_what_is_too_short_says_nothing():
    with pytest.raises(SystemExit, match="too short"):
        evaluate(moments(lambda minute: 500, lambda minute: 1000, minutes=1)[:4])
