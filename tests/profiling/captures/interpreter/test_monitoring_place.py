"""Our place in `sys.monitoring`: nobody finds it taken, and nothing is lost when it moves."""

from __future__ import annotations

import cProfile
import sys
import threading

import pytest

if not hasattr(sys, "monitoring"):
    pytest.skip("sys.monitoring is of Python 3.12", allow_module_level=True)

from sample_profiler.profiling.captures.functions import CALLBACKS
from sample_profiler.profiling.captures.interpreter.monitoring_place import MonitoringPlace

PLACES = range(6)
get_tool, use_tool_id = sys.monitoring.get_tool, sys.monitoring.use_tool_id


@pytest.fixture
def calls():
    return []


@pytest.fixture
def place(calls):
    place = MonitoringPlace({"PY_START": lambda code, offset: calls.append(code.co_name)})
    place.take()
    yield place
    place.leave()
    for number in PLACES:
        sys.monitoring.free_tool_id(number)
    assert sys.monitoring.get_tool is get_tool
    assert sys.monitoring.use_tool_id is use_tool_id


def work():
    return [tiny() for _ in range(3)]


def tiny():
    return len([])


def test_calls_of_its_own_thread_are_told(place, calls):
    tiny()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    place.leave()
    tiny()
    assert calls.count("tiny") == 1
    assert place.lost_to is None


def test_nobody_finds_its_place_taken(place):
    assert [sys.monitoring.get_tool(number) for number in PLACES] == [None] * 6
    assert get_tool(5) == "sample_profiler"


@pytest.mark.parametrize("wanted", PLACES)
def test_whoever_insists_on_a_place_gets_it_and_the_calls_are_told_on(place, calls, wanted):
    tiny()
    sys.monitoring.use_tool_id(wanted, "environment")
    assert get_tool(wanted) == sys.monitoring.get_tool(wanted) == "environment"
    tiny()
    place.leave()
    assert calls.count("tiny") == 2
    assert place.lost_to is None
    assert get_tool(wanted) == "environment"


def test_where_all_places_are_wanted_it_gives_way(place):
    for number in PLACES:
        sys.monitoring.use_tool_id(number, "environment")
    place.leave()
    assert place.lost_to == "environment"
    assert [get_tool(number) for number in PLACES] == ["environment"] * 6


def test_where_all_places_are_taken_it_is_refused():
    for number in PLACES:
        use_tool_id(number, "environment")
    try:
        with pytest.raises(ValueError, match=r"another profiler runs in this process \(environment\)"):
            MonitoringPlace({}).take()
    finally:
        for number in PLACES:
            sys.monitoring.free_tool_id(number)


def test_one_whose_place_was_freed_by_somebody_else_knows_it(place):
    sys.monitoring.free_tool_id(5)
    use_tool_id(5, "environment")
    place.leave()
    assert place.lost_to == "environment"
    assert get_tool(5) == "environment"


def test_a_wrong_use_is_the_error_that_it_is_otherwise(place):
    with pytest.raises(ValueError, match="invalid tool"):
        sys.monitoring.use_tool_id(17, "environment")
    sys.monitoring.use_tool_id(5, "environment")
    with pytest.raises(ValueError, match="already in use"):
        sys.monitoring.use_tool_id(5, "environment")


def test_what_a_profile_sees_is_right_over_moves():
    """A call whose end, or begin, is missing would have all later ones attributed to their callers."""
    profile = cProfile.Profile()
    place = MonitoringPlace({event: getattr(profile, name) for event, name in CALLBACKS.items()})
    place.take()
    try:
        work()
        for number in (5, 4, 3):
            sys.monitoring.use_tool_id(number, "environment")
            work()
    finally:
        place.leave()
        for number in PLACES:
            sys.monitoring.free_tool_id(number)
    counts = {getattr(entry.code, "co_name", ""): entry for entry in profile.getstats()}
    assert counts["work"].callcount == 4
    assert counts["tiny"].callcount == 12
    callees = {getattr(call.code, "co_name", call.code) for call in counts["tiny"].calls}
    assert callees == {"<built-in method builtins.len>"}
    assert "work" not in {getattr(call.code, "co_name", "") for call in counts["make_room"].calls or ()}
