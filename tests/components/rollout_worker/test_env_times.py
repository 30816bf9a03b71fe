"""In which window the slowest environment is looked for."""

from __future__ import annotations

from sample_profiler.components.rollout_worker.env_times import RecentEnvTimes, with_resets


class Reader:
    """Two environments, the gauges of whose worker are read."""

    def __init__(self, num_steps=0.0):
        self.now_s, self.times_ns, self.num_steps = 100.0, [0, 0], num_steps
        self.recent = RecentEnvTimes(2, num_steps, clock_s=lambda: self.now_s)

    def read(self, seconds, steps, *each_ns):
        """Let so many seconds and steps pass, in which environments take so long, and read."""
        self.now_s += seconds
        self.num_steps += steps
        self.times_ns = [total + more for total, more in zip(self.times_ns, each_ns, strict=True)]
        return self.recent.since_mark(self.times_ns, self.num_steps)


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
