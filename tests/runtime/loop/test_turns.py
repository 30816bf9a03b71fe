"""Whose turn it is in a process of several components: the turn of one is a wait of the others for it."""

from __future__ import annotations

import pytest

from sample_profiler.profiling import Timing
from sample_profiler.runtime.loop.turns import Turns


class Clock:
    """Stands still until it is moved."""

    def __init__(self):
        self.now_ns = 1_000

    def __call__(self):
        return self.now_ns


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def turns(clock):
    return Turns(clock)


def pass_time(clock, duration_ns):
    clock.now_ns += duration_ns


def waits_ns(timing):
    return {node.key: node.statistics.total_ns for node in timing.snapshot().children.values()}


def join(turns, clock, name):
    turns.begin(name)
    timing = Timing(name, clock_ns=clock)
    turns.join(name, timing)
    return timing


def test_the_turns_of_others_are_waits_for_them(turns, clock):
    first, second = join(turns, clock, "a"), join(turns, clock, "b")
    pass_time(clock, 10)  # b's
    turns.begin("a")
    pass_time(clock, 5)
    turns.begin("b")

    assert waits_ns(first) == {"wait_b": 10}
    assert waits_ns(second) == {"wait_a": 5}


def test_a_wait_in_which_several_had_turns_is_split_between_them(turns, clock):
    first = join(turns, clock, "a")
    for name in ("b", "c"):
        join(turns, clock, name)
    for name, duration_ns in (("b", 1), ("c", 2), ("b", 4), ("c", 8)):
        turns.begin(name)
        pass_time(clock, duration_ns)
    turns.begin("a")

    assert waits_ns(first) == {"wait_b": 5, "wait_c": 10}
    assert first.snapshot().children["wait_b"].statistics.count == 1


def test_turns_before_a_component_joined_are_none_of_its_waits(turns, clock):
    turns.begin("early")
    pass_time(clock, 100)
    late = join(turns, clock, "late")
    pass_time(clock, 1)
    turns.begin("early")
    pass_time(clock, 7)
    turns.begin("late")

    assert waits_ns(late) == {"wait_early": 7}


def test_a_component_that_is_being_built_has_its_turn_before_it_joins(turns, clock):
    first = join(turns, clock, "a")
    turns.begin("b")
    pass_time(clock, 30)
    turns.begin("a")

    assert waits_ns(first) == {"wait_b": 30}


def test_settling_records_what_everybody_has_waited_so_far_and_nothing_twice(turns, clock):
    first, second = join(turns, clock, "a"), join(turns, clock, "b")
    pass_time(clock, 3)
    turns.settle()
    turns.settle()
    assert waits_ns(first) == {"wait_b": 3}

    pass_time(clock, 4)
    turns.begin("a")
    assert waits_ns(first) == {"wait_b": 7}
    assert waits_ns(second) == {}


def test_waits_and_own_turns_add_up_to_the_time_since_joining(turns, clock):
    timings = {name: join(turns, clock, name) for name in ("a", "b", "c")}
    own_ns = dict.fromkeys(timings, 0)
    for step, name in enumerate("abcacbbacab"):
        turns.begin(name)
        pass_time(clock, step + 1)
        own_ns[name] += step + 1
    turns.settle()

    for name, timing in timings.items():
        assert own_ns[name] + sum(waits_ns(timing).values()) == timing.snapshot().statistics.total_ns
