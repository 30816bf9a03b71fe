"""When a run has reached what was asked for: over all of its starts, and as checkpoints from anywhere say."""

from __future__ import annotations

import math
import time

import pytest

from sample_profiler.components.milestones import Milestones, Reached, name_of_stop, names_of_milestones
from sample_profiler.config import parse_config


@pytest.fixture
def now_s(monkeypatch):
    """Stop the clock; what is returned sets it."""

    def set_to(value):
        monkeypatch.setattr(time, "monotonic", lambda: value)

    set_to(100.0)
    return set_to


@pytest.fixture
def make_milestones(now_s):
    def make(*names, num_policies=1):
        milestones = Milestones(names, num_policies)
        milestones.begin(90.0, 88.0)
        return milestones

    return make


def test_a_run_has_its_thresholds_and_its_end_each_under_one_name_however_it_is_written():
    options = parse_config(["--env=fake", "--thresholds=100,len<=2", "--stop_at=475, len >= 3"]).saving
    assert names_of_milestones(options) == ("reward>=100", "len<=2", "stop at reward>=475, len>=3")
    assert name_of_stop(options) == "stop at reward>=475, len>=3"
    plain = parse_config(["--env=fake"]).saving
    assert names_of_milestones(plain) == () and name_of_stop(plain) == ""


def test_seconds_count_from_the_run_and_from_its_process_without_what_is_left_out(make_milestones, now_s):
    milestones = make_milestones("a", "b", num_policies=2)
    assert milestones.start_up_s == 2.0
    assert milestones.note(1, "a", 640) == Reached(10.0, 12.0, 640)
    now_s(107.0)
    milestones.leave_out(3.0)
    assert milestones.note(1, "b", 700) == Reached(14.0, 16.0, 700)
    assert (milestones.find(1, "a"), milestones.find(1, "b")) == (Reached(10.0, 12.0, 640), Reached(14.0, 16.0, 700))
    assert milestones.find(0, "a") is None and milestones.find(1, "c") is None
    assert [milestones.num_reached(policy) for policy in (0, 1)] == [0, 2]


def test_a_resumed_run_counts_on(make_milestones, now_s):
    first = make_milestones("a", "b")
    first.note(0, "a", 640)
    now_s(104.0)
    state = first.state(0)
    resumed = make_milestones("b", "a", "c")
    resumed.resume(0, state)
    assert resumed.find(0, "a") == Reached(10.0, 12.0, 640)
    assert resumed.find(0, "b") is None
    now_s(105.0)
    assert resumed.note(0, "b", 900) == Reached(14.0 + 15.0, 16.0 + 17.0, 900)


def test_seconds_are_unknown_if_an_earlier_start_was_not_timed(make_milestones):
    assert make_milestones().state(0) == {}
    resumed = make_milestones("a")
    resumed.resume(0, make_milestones().state(0))
    reached = resumed.note(0, "a", 640)
    assert math.isnan(reached.run_s) and math.isnan(reached.process_s) and reached.frames == 640
    again = make_milestones("a")
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
def test_what_is_no_state_of_ours_is_refused_as_what_is_in_checkpoints_of_others_is(make_milestones, saved):
    with pytest.raises((KeyError, TypeError, ValueError, OverflowError)):
        make_milestones("a").resume(0, {"milestones": saved})
