"""Tracks of passes that overlap: the first one that fits, as a plain search finds it, however many there are."""

from __future__ import annotations

import random

import pytest

from sample_profiler.reports.timeline import lanes as timeline_lanes
from sample_profiler.reports.timeline.lanes import MAX_LANES, Lanes, OpenPasses


def find_plainly(passes):
    """Return the tracks of passes by trying one after another; the last takes what fits nowhere."""
    stacks, found = [[] for _ in range(MAX_LANES)], []
    for start_ns, end_ns in passes:
        for lane, stack in enumerate(stacks):
            while stack and stack[-1] <= start_ns:
                stack.pop()
            if not stack or end_ns <= stack[-1] or lane == MAX_LANES - 1:
                stack.append(end_ns)
                found.append(lane)
                break
    return found


def draw_passes(seed, number, span_ns, longest_ns):
    chance = random.Random(seed)
    starts = (chance.randrange(span_ns) for _ in range(number))
    passes = [(start_ns, start_ns + chance.randrange(longest_ns)) for start_ns in starts]
    return sorted(passes, key=lambda one: (one[0], -one[1]))


@pytest.mark.parametrize("longest_ns", [2, 30, 1000, 100_000])
@pytest.mark.parametrize("seed", range(5))
def test_passes_go_to_the_first_track_that_fits(seed, longest_ns):
    passes = draw_passes(seed, 3000, 10_000, longest_ns)
    lanes = Lanes()
    found = [lanes.place(*one) for one in passes]
    assert found == find_plainly(passes)
    assert lanes.num_used == max(found) + 1


def test_the_last_track_takes_all_that_fit_nowhere_and_keeps_nothing_of_them():
    passes = [(start_ns, 10_000 + start_ns) for start_ns in range(5000)]
    lanes = Lanes()
    assert [lanes.place(*one) for one in passes] == find_plainly(passes)
    assert lanes.num_used == MAX_LANES
    assert len(lanes._ends) < MAX_LANES


def test_only_passes_that_are_open_are_kept():
    lanes = Lanes()
    for start_ns in range(0, 200_000, 10):
        lanes.place(start_ns, start_ns + 1005)
    assert sum(map(len, (*lanes._few, *lanes._others))) < 110
    assert len(lanes._ends) < 110


def test_of_open_passes_the_first_track_is_told():
    passes = OpenPasses()
    assert passes.first(0) is None
    passes.add(7, 10, 100)
    passes.add(3, 20, 50)
    passes.add(5, 30, 60)
    assert [passes.first(time_ns) for time_ns in (30, 50, 51, 60, 61, 100, 101)] == [3, 3, 5, 5, 7, 7, None]


def test_open_passes_do_not_pile_up_behind_one_that_stays_open():
    passes = OpenPasses()
    passes.add(0, 0, 10**9)
    for start_ns in range(0, 100_000, 10):
        passes.add(1, start_ns, start_ns + 5)
    assert len(passes._passes) <= timeline_lanes._FEWEST_KEPT
    assert passes.first(100_000) == 0
