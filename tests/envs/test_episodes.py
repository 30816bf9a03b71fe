"""What is counted of episodes, agent by agent."""

from __future__ import annotations

import numpy as np
import pytest

from sample_profiler.envs.episodes import EpisodeTracker

NOBODY = [False, False]


def infos(*active):
    return [{"is_active": each} for each in active]


def take_step(tracker, rewards, active):
    tracker.lengths += 1
    tracker.returns += rewards
    tracker.note_active(0, infos(*active))
    return tracker.begin_late()


@pytest.fixture
def make():
    """Two agents whose first episode has begun, with those that are active."""

    def make(*active, ends_apart=False):
        tracker = EpisodeTracker([ends_apart] * 2)
        tracker.note_active(0, infos(*active))
        tracker.begin([0, 1])
        return tracker

    return make


def test_who_says_nothing_has_a_part():
    tracker = EpisodeTracker(NOBODY)
    tracker.note_active(1, [{}])
    assert tracker.inactive.tolist() == [False, False]


def test_rewards_and_steps_add_up_from_the_beginning(make):
    tracker = make(True, True)
    tracker.is_partial[:] = True
    for _ in range(3):
        assert take_step(tracker, np.array([1.0, 2.0]), (True, True)) == []
    assert (tracker.returns.tolist(), tracker.lengths.tolist()) == ([3.0, 6.0], [3, 3])
    tracker.begin(np.array([1]))
    assert (tracker.returns.tolist(), tracker.lengths.tolist()) == ([3.0, 0.0], [3, 0])
    assert tracker.is_partial.tolist() == [True, False]


@pytest.mark.parametrize("num_steps", [1, 3])
@pytest.mark.parametrize(("ends_apart", "expected"), [(False, [4.0, 1.0]), (True, [0.0, 0.0])])
def test_one_that_begins_late_has_an_episode_of_its_own_where_agents_end_apart(make, num_steps, ends_apart, expected):
    tracker = make(True, False, ends_apart=ends_apart)
    for _ in range(num_steps - 1):
        assert take_step(tracker, 4.0, (True, False)) == []
    assert take_step(tracker, 4.0, (True, True)) == [1]
    assert tracker.returns[1] == expected[0] * num_steps
    assert tracker.lengths[1] == expected[1] * num_steps
    assert (tracker.returns[0], tracker.lengths[0]) == (4.0 * num_steps, num_steps)
    assert take_step(tracker, 4.0, (True, True)) == [], "once"


def test_one_that_ends_while_others_go_on_is_told_once_and_begins_when_it_is_back(make):
    tracker = make(True, True)
    assert take_step(tracker, 0.0, (True, False)) == []
    assert tracker.end_alone(0, NOBODY, [False, True]) == [1]
    assert take_step(tracker, 0.0, (True, False)) == []
    assert tracker.end_alone(0, NOBODY, [False, True]) == [], "it says so again"
    assert take_step(tracker, 0.0, (True, True)) == [1]
    assert take_step(tracker, 0.0, (True, False)) == [], "pausing ends nothing"
    assert take_step(tracker, 0.0, (True, True)) == []


def test_one_whose_episode_begins_with_all_others_is_not_late_any_more(make):
    tracker = make(True, True)
    take_step(tracker, 0.0, (True, False))
    tracker.end_alone(0, [False, True], NOBODY)
    tracker.note_active(0, infos(True, True))
    tracker.begin([0, 1])
    assert take_step(tracker, 0.0, (True, True)) == []


def test_rows_of_another_environment_have_their_own_numbers():
    tracker = EpisodeTracker([False] * 4)
    tracker.note_active(2, infos(True, False))
    assert tracker.end_alone(2, NOBODY, [False, True]) == [3]
    assert tracker.inactive.tolist() == [False, False, False, True]


def test_it_goes_on_from_a_course_as_it_would_have_gone_on(make):
    tracker, other = make(True, False), make(True, True)
    take_step(tracker, 4.0, (True, False))
    course = tracker.course()
    assert take_step(tracker, 1.0, (True, True)) == [1]
    other.follow(course | {"something": "else"})
    assert take_step(other, 1.0, (True, True)) == [1]
    assert other.returns.tolist() == tracker.returns.tolist() == [5.0, 5.0]
    assert other.lengths.tolist() == [2, 2]
