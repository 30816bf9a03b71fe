"""In which window the slowest environment and the slowest steps are looked for, and which those are."""

from __future__ import annotations

import numpy as np
import pytest

from sample_profiler.components.rollout_worker.env_times import NUM_LENGTHS, RecentEnvTimes, tail, with_resets


class Reader:
    """Two environments, the gauges of whose worker are read."""

    def __init__(self, num_steps=0.0):
        self.now_s, self.times_ns, self.num_steps = 100.0, [0, 0], num_steps
        self.recent = RecentEnvTimes((2,), num_steps, clock_s=lambda: self.now_s)

    def read(self, seconds, steps, *each_ns):
        """Let so many seconds and steps pass, in which environments take so long, and read."""
        self.now_s += seconds
        self.num_steps += steps
        self.times_ns = [total + more for total, more in zip(self.times_ns, each_ns, strict=True)]
        return self.recent.since_mark(np.array(self.times_ns), self.num_steps).tolist()


def test_an_environment_that_turns_slow_late_is_seen_after_two_marks():
    reader = Reader()
    for _ in range(100):
        assert reader.read(10.0, 100, 7, 7)[0] in (7, 14)
    assert reader.read(10.0, 100, 7, 700) == [14, 707]
    assert reader.read(10.0, 100, 7, 700) == [14, 1400], "nothing is left of the time before"


def test_marks_are_no_closer_than_some_seconds_however_often_somebody_reads():
    reader = Reader()
    assert [reader.read(2.0, 100, 1, 1)[0] for _ in range(8)] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [reader.read(2.0, 100, 1, 1)[0] for _ in range(6)] == [5, 6, 7, 8, 5, 6]


def test_marks_are_no_closer_than_some_steps_however_long_they_take():
    reader = Reader(num_steps=1000.0)
    assert [reader.read(60.0, 4, 1, 1)[0] for _ in range(8)] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert reader.read(60.0, 4, 1, 1) == [5, 5]


def test_resets_count_for_as_much_of_them_as_of_the_steps():
    assert with_resets([10, 10], [100, 100], [400, 50]) == [50, 15]


def test_resets_that_are_rare_do_not_make_the_one_that_was_just_reset_slow():
    assert with_resets([10, 10, 10], [100, 100, 100], [5000, 5000, 0]) == [10, 10, 10]
    slowest, other = with_resets([10, 10], [1000, 1000], [2 * 5000, 5000])
    assert slowest / other < 2


def test_without_steps_there_is_nothing_to_spread():
    assert with_resets([0, 0], [0, 0], [3, 4]) == [0, 0]


def lengths_of(*envs):
    """Return steps and their times by length; each environment is {nanoseconds of a step: how many}."""
    counts, times_ns = np.zeros((2, len(envs), NUM_LENGTHS), dtype=np.int64)
    for env, steps in enumerate(envs):
        for ns, number in steps.items():
            counts[env, ns.bit_length()] += number
            times_ns[env, ns.bit_length()] += ns * number
    return counts, times_ns


USUAL, RARE = 200_000, 400_000_000


def test_a_few_steps_that_take_most_of_the_time_are_told_with_their_environments():
    usual = {USUAL: 998}
    gauges = tail(*lengths_of(usual, usual | {RARE: 2}, usual, usual | {RARE: 6}), first_env=8)
    rare_ns, all_ns = 8 * RARE, 8 * RARE + 4 * 998 * USUAL
    assert gauges["tail_steps_share"] == pytest.approx(8 / 4000, rel=0.01)
    assert (gauges["tail_num_steps"], gauges["tail_step_s"]) == (8, 0.4)
    assert gauges["tail_share"] == pytest.approx(rare_ns / all_ns)
    assert (gauges["tail_num_envs"], gauges["tail_env"], gauges["tail_other_env"]) == (2, 11, 9)


def test_an_environment_that_is_slow_altogether_has_no_tail():
    gauges = tail(*lengths_of({USUAL: 1000}, {RARE: 1000}), first_env=0)
    assert gauges["tail_share"] == 0
    assert "tail_env" not in gauges


def test_a_tail_that_takes_little_is_not_described():
    gauges = tail(*lengths_of({USUAL: 10_000, 20 * USUAL: 10}), first_env=0)
    assert 0 < gauges["tail_share"] < 0.1
    assert gauges.keys() == {"slowest_percent_share", "slowest_permille_share", "tail_share"}


def test_the_slowest_steps_are_those_of_the_longest_times():
    gauges = tail(*lengths_of({USUAL: 990, 100 * USUAL: 10}), first_env=0)
    assert gauges["slowest_percent_share"] == pytest.approx(1000 / 1990)
    assert gauges["slowest_permille_share"] == pytest.approx(100 / 1990), "one of ten that are alike"
    assert tail(*lengths_of({USUAL: 1000}), first_env=0)["slowest_percent_share"] == pytest.approx(0.01)


def test_without_steps_there_is_no_tail():
    assert tail(*lengths_of({}, {}), first_env=0) == {}
