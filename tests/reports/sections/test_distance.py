"""Runs whose processes cannot be seen from here."""

from __future__ import annotations

import pytest

from sample_profiler.profiling.session.session import Session
from sample_profiler.reports.run_report.report import describe_run, make_report
from sample_profiler.reports.sections import distance
from sample_profiler.reports.sections.distance import DistantRun, describe_distance, describe_hosts, is_running
from sample_profiler.reports.status import format_status
from tests.reports.records import make_record


def make_distant(silent_s, *, name="Runner", host="node7", read_ns=0):
    record = make_record(name=name)
    record.host, record.state, record.silent_s, record.read_ns = host, "unknown", silent_s, read_ns
    return record


def test_where_they_are_and_who_wrote_last_is_told():
    session = Session(0.0, processes=[make_distant(40.0), make_distant(2.0, host="node8"), make_record()])
    assert describe_hosts(session) == "host node7 and node8"
    assert describe_distance(session) == "on host node7 and node8; updated 2.0 s ago"
    assert describe_distance(Session(0.0, processes=[make_record()])) == ""


@pytest.mark.parametrize(("silent_s", "runs"), [(2.0, True), (119.0, True), (121.0, False), (90_000.0, False)])
def test_a_run_goes_on_while_something_comes_from_it(silent_s, runs):
    session = Session(0.0, processes=[make_distant(5000.0), make_distant(silent_s, name="Learner_0")])
    assert is_running(session) == runs
    headline = format_status(session).splitlines()[0]
    line = describe_run(make_report("run", session, None))
    if runs:
        assert headline.startswith(
            f"The run is running on host node7; updated {distance.format_duration(silent_s)} ago;"
        )
        assert "processes: 1 unknown, 1 alive" in headline
        assert " · running on host node7" in line
    else:
        assert "its processes cannot be seen from here" in headline and " on host node7; updated " in headline
        assert " · on host node7; updated " in line


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now_s = 1000.0

    monkeypatch.setattr(distance.time, "monotonic", lambda: Clock.now_s)
    return Clock


def test_what_changes_between_two_looks_goes_on_whatever_its_clock_says(clock):
    run = DistantRun()

    def look(read_ns):
        clock.now_s += 2.0
        return run.lives(Session(0.0, processes=[make_distant(90_000.0, read_ns=read_ns)]))

    assert look(5), "nothing to compare with yet"
    assert not look(5)
    assert look(6) and look(6)
    clock.now_s += 200.0
    assert not look(6)
    assert look(7)
    assert not run.lives(Session(0.0)), "its files are gone"


def test_a_run_that_can_be_seen_needs_no_second_look():
    ended = make_record()
    ended.state = "ended"
    assert not DistantRun().lives(Session(0.0, processes=[ended]))
    assert DistantRun().lives(Session(0.0, processes=[make_record(state="alive")]))
