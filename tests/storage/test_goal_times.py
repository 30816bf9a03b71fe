"""When a run has reached what was asked for: over all of its starts, and as checkpoints from anywhere say."""

from __future__ import annotations

import math
import time

import pytest

from sample_profiler.config import parse_config
from sample_profiler.storage.goal_times import GoalTimes, Reached, name_of_stop, names_of_goals


@pytest.fixture
def now_s(monkeypatch):
    """Stop the clock; what is returned sets it."""

    def set_to(value):
        monkeypatch.setattr(time, "monotonic", lambda: value)

    set_to(100.0)
    return set_to


@pytest.fixture
def make_goal_times(now_s):
    def make(*names, num_policies=1):
        goal_times = GoalTimes(names, num_policies)
        goal_times.begin(90.0, 88.0)
        return goal_times

    return make


def test_a_run_has_its_thresholds_and_its_end_each_under_one_name_however_it_is_written():
    options = parse_config(["--env=fake", "--thresholds=100,len<=2", "--stop_at=475, len >= 3"]).saving
    assert names_of_goals(options) == ("reward>=100", "len<=2", "stop at reward>=475, len>=3")
    assert name_of_stop(options) == "stop at reward>=475, len>=3"
    plain = parse_config(["--env=fake"]).saving
    assert names_of_goals(plain) == () and name_of_stop(plain) == ""


def test_seconds_count_from_the_run_and_from_its_process_without_what_is_left_out(make_goal_times, now_s):
    goal_times = make_goal_times("a", "b", num_policies=2)
    assert goal_times.start_up_s == 2.0
    assert goal_times.note(1, "a", 640) == Reached(10.0, 12.0, 640)
    now_s(107.0)
    goal_times.leave_out(3.0)
    assert goal_times.note(1, "b", 700) == Reached(14.0, 16.0, 700)
    assert (goal_times.find(1, "a"), goal_times.find(1, "b")) == (Reached(10.0, 12.0, 640), Reached(14.0, 16.0, 700))
    assert goal_times.find(0, "a") is None and goal_times.find(1, "c") is None
    assert [goal_times.num_reached(policy) for policy in (0, 1)] == [0, 2]


def test_this_start_of_a_run_has_seconds_of_its_own(make_goal_times, now_s):
    assert GoalTimes((), 1).elapsed_s() == 0.0, "it has not begun"
    resumed = make_goal_times()
    resumed.resume(0, {"goal_times": {"spent_s": (1000.0, 1002.0), "reached": {}}})
    now_s(107.0)
    resumed.leave_out(3.0)
    assert resumed.elapsed_s() == 14.0


def test_a_resumed_run_counts_on(make_goal_times, now_s):
    first = make_goal_times("a", "b")
    first.note(0, "a", 640)
    now_s(104.0)
    state = first.state(0)
    resumed = make_goal_times("b", "a", "c")
    resumed.resume(0, state)
    assert resumed.find(0, "a") == Reached(10.0, 12.0, 640)
    assert resumed.find(0, "b") is None
    now_s(105.0)
    assert resumed.note(0, "b", 900) == Reached(14.0 + 15.0, 16.0 + 17.0, 900)


def test_seconds_are_unknown_if_an_earlier_start_was_not_timed(make_goal_times):
    assert make_goal_times().state(0) == {}
    resumed = make_goal_times("a")
    resumed.resume(0, make_goal_times().state(0))
    reached = resumed.note(0, "a", 640)
    assert math.isnan(reached.run_s) and math.isnan(reached.process_s) and reached.frames == 640
    again = make_goal_times("a")
    again.resume(0, resumed.state(0))
    assert math.isnan(again.spent_s(0)[0]) and again.find(0, "a").frames == 640


@pytest.mark.parametrize(
    "saved",
    [
        None,
        [],
        {},
        {"spent_s": [1.0], "reached": {}},
        {"spent_s": [1.0, -2.0], "reached": {}},
        {"spent_s": [1.0, math.inf], "reached": {}},
        {"spent_s": ["one", 2.0], "reached": {}},
        {"spent_s": [1.0, 2.0], "reached": {"a": [1.0, 2.0]}},
        {"spent_s": [1.0, 2.0], "reached": {"a": [1.0, 2.0, -1]}},
        {"spent_s": [1.0, 2.0], "reached": {"a": [1.0, 2.0, math.nan]}},
        {"spent_s": [1.0, 2.0], "reached": {"a": 3.0}},
        {"spent_s": [1.0, 2.0], "reached": {"a": [[1.0], 2.0, 3]}},
    ],
)
def test_what_is_no_state_of_ours_is_refused_as_what_is_in_checkpoints_of_others_is(make_goal_times, saved):
    with pytest.raises((KeyError, TypeError, ValueError, OverflowError)):
        make_goal_times("a").resume(0, {"goal_times": saved})
