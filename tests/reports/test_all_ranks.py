"""The sessions of ranks that train together are one, by names and on one clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from sample_profiler.profiling import Timing
from sample_profiler.profiling.record.events import Event, Events
from sample_profiler.profiling.record.format import FLOW_POINT
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session.session import Session, read_live
from sample_profiler.reports.all_ranks import read_all_ranks
from sample_profiler.run_folder import RunFolder

AHEAD_S = 12.5


def leave_run(folder: Path, host: str = "first", **gauges: float) -> Session:
    """Leave the session of a rank with a Learner, whose block was passed once."""
    live = RunFolder(folder).live()
    live.path.mkdir(parents=True)
    timing = Timing("Learner_0 profile")
    file = RecordFile(live.record("Learner_0", 1), process_name="Learner_0", ring_bytes=1 << 16)
    file.attach(timing, "Learner_0")
    with timing.add_time("train"):
        pass
    for name, value in gauges.items():
        file.set_gauge(f"Learner_0/{name}", value)
    file.close()
    session = read_live(folder)
    for record in session.processes:
        record.host = host
    session.save(RunFolder(folder).session)
    for path in live.path.iterdir():
        path.unlink()
    return session


def test_components_of_other_ranks_are_named_by_them(tmp_path: Path) -> None:
    for name in ("run", "run.rank1", "run.rank10", "run.rank2", "run.rankless", "other.rank1"):
        leave_run(tmp_path / name, slowest_rank=1.0)
    session = read_all_ranks(tmp_path / "run")
    assert [record.name for record in session.processes] == [
        *("Learner_0", "rank 1 Learner_0", "rank 2 Learner_0", "rank 10 Learner_0"),
    ]
    last = session.processes[-1]
    assert last.rank == 10
    assert last.components == ["rank 10 Learner_0"]
    assert last.gauge_owners()["rank 10 Learner_0/slowest_rank"] == ("rank 10 Learner_0", "slowest_rank")
    assert ("rank 10 Learner_0", "train") in last.paths
    assert session.problems == []
    assert len(read_all_ranks(tmp_path / "other.rank1").processes) == 1


def test_processes_of_one_machine_have_one_clock(tmp_path: Path) -> None:
    leave_run(tmp_path / "run")
    before = leave_run(tmp_path / "run.rank1", clock_offset_s=AHEAD_S, clock_error_s=0.1)
    moved = read_all_ranks(tmp_path / "run").processes[1]
    assert moved.read_ns == before.processes[0].read_ns
    assert list(moved.events) == list(before.processes[0].events)


def test_moments_of_another_machine_are_put_on_the_first_ones_clock_and_how_well_is_said(tmp_path: Path) -> None:
    leave_run(tmp_path / "run")
    (before,) = leave_run(tmp_path / "run.rank1", "second", clock_offset_s=AHEAD_S, clock_error_s=0.0004).processes
    session = read_all_ranks(tmp_path / "run")
    moved, ahead_ns = session.processes[1], round(AHEAD_S * 1e9)
    assert before.read_ns - moved.read_ns == before.process_started_ns - moved.process_started_ns == ahead_ns
    assert [event.start_ns + ahead_ns for event in moved.events] == [event.start_ns for event in before.events]
    assert moved.wall_ns(moved.read_ns) == before.wall_ns(before.read_ns)
    assert session.problems == ["rank 1: its moments may be off by 0.40 ms: its machine has a clock of its own"]


def test_a_clock_of_which_nothing_is_known_and_a_folder_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    leave_run(tmp_path / "run")
    leave_run(tmp_path / "run.rank1", "second")
    (tmp_path / "run.rank2").mkdir()
    unknown, unreadable = read_all_ranks(tmp_path / "run").problems
    assert unknown == "rank 1: its machine (second) has a clock of its own, of which nothing is known"
    assert unreadable.startswith("rank 2: ")


@pytest.mark.parametrize("by_ns", [0, -5, 1000])
def test_moved_events_are_the_same_at_other_moments(by_ns: int) -> None:
    events = [Event(100, 150, 0, 1, 0), Event(120, FLOW_POINT, 0, 1, 77), Event(90, 130, 1, 2, 0)]
    moved = Events.of(events).moved(by_ns)
    ends = [150 + by_ns, FLOW_POINT, 130 + by_ns]
    assert list(moved) == [
        event._replace(start_ns=event.start_ns + by_ns, end_ns=end) for event, end in zip(events, ends, strict=True)
    ]
    assert list(Events().moved(by_ns)) == []
