"""Events, packed: what goes in comes out, one object at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_profiler.profiling.record.events import Event, Events
from sample_profiler.profiling.record.format import FLOW_POINT

TIMES = st.integers(0, 2**62)
PASSES = st.builds(
    lambda start, span, node, thread: Event(start, start + span, node, thread, 0),
    *(TIMES, st.integers(1, 2**61), st.integers(0, 2**32 - 1), st.integers(1, 2**32 - 1)),
)
POINTS = st.builds(lambda time, flow: Event(time, FLOW_POINT, 1, 1, flow), TIMES, st.integers(1, 2**64 - 1))


@given(st.lists(PASSES | POINTS))
def test_what_is_packed_comes_back(events):
    packed = Events.of(events)
    assert packed == events
    assert [packed[index] for index in range(-len(events), len(events))] == events * 2
    assert packed[1::2] == events[1::2]
    assert Events.from_columns(*packed.columns()) == events
    assert packed.latest_ns() == max((max(event[:2]) for event in events), default=0)


@given(st.lists(PASSES | POINTS), TIMES)
def test_what_had_ended_before_a_moment_is_left_out(events, time_ns):
    assert Events.of(events).since(time_ns) == [event for event in events if max(event[:2]) >= time_ns]


def test_events_that_are_packed_are_not_copied():
    packed = Events.of([Event(1, 2, 0, 1, 0)])
    assert Events.of(packed) is packed
    assert packed.since(0) is packed


def test_what_is_no_event_is_told():
    with pytest.raises(ValueError, match="40 bytes are no whole number"):
        Events(bytes(40))
    with pytest.raises(IndexError, match="there are 0 events"):
        Events()[0]
