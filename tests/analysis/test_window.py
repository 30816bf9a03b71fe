"""What happened between two readings of a run."""

from __future__ import annotations

import pytest

from sample_profiler.analysis.window import window
from sample_profiler.profiling import Timing
from sample_profiler.profiling.record_file import RecordFile
from sample_profiler.profiling.session import Session, read_live


@pytest.fixture
def process(tmp_path):
    folder = tmp_path / "profile" / "live"
    folder.mkdir(parents=True)
    timing = Timing("Learner 0 profile")
    file = RecordFile(folder / "Learner_0.1.rec", process_name="Learner_0", ring_bytes=0)
    file.attach(timing, "Learner_0")
    yield timing, file, lambda: read_live(tmp_path, with_events=False)
    file.close()


def spend(timing, num):
    for _ in range(num):
        with timing.add_time("main_loop"), timing.add_time("train"):
            pass


def test_counts_totals_and_counters_are_differences(process):
    timing, file, read = process
    spend(timing, 3)
    file.set_gauge("cpu_s", 2.0)
    file.set_gauge("memory_mib", 100.0)
    file.flush()
    first = read()
    spend(timing, 4)
    file.set_gauge("cpu_s", 5.0)
    file.set_gauge("memory_mib", 120.0)
    file.flush()
    second = read()
    (record,) = window(second, first).processes
    root, before, after = (s.processes[0].trees["Learner_0"] for s in (Session(0, processes=[record]), first, second))
    assert root.children["main_loop"].children["train"].statistics.count == 4
    assert root.statistics.total_ns == after.statistics.total_ns - before.statistics.total_ns
    assert record.gauges["cpu_s"].value == 3.0
    assert record.gauges["memory_mib"].value == 120.0
    assert after.children["main_loop"].children["train"].statistics.count == 7, "the readings stay as they are"


def test_processes_that_began_later_are_whole(process):
    timing, file, read = process
    spend(timing, 2)
    file.flush()
    (record,) = window(read(), Session(0.0)).processes
    assert record.trees["Learner_0"].children["main_loop"].statistics.count == 2
