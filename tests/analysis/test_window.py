"""What happened between two readings of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_profiler.analysis.window import window
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session.session import Session, read_live


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
    assert record.gauges["cpu_s"].value > 0
    assert record.gauges["memory_mib"].value == 120.0
    assert after.children["main_loop"].children["train"].statistics.count == 7, "the readings stay as they are"


def read_at(session, read_ns, **updated_ns):
    """Let the reading of the only process, and its gauges, be of these moments."""
    record = session.processes[0]
    record.read_ns = read_ns
    for name, moment_ns in updated_ns.items():
        record.gauges[name].updated_ns = moment_ns
    return session


def test_counters_are_rates_between_the_times_when_they_were_written(process):
    _, file, read = process
    file.set_gauge("cpu_s", 2.0)
    file.set_gauge("frames", 100.0)
    first = read_at(read(), 20_000, cpu_s=18_500, frames=18_500)
    file.set_gauge("cpu_s", 5.0)
    second = read_at(read(), 22_000, cpu_s=21_500, frames=18_500)
    (record,) = window(second, first).processes
    assert record.gauges["cpu_s"].value == pytest.approx(2.0), "3 s in 3 µs, over a window of 2 µs"
    assert "frames" not in record.gauges, "not written in between: its rate is not known"
    assert "cpu_s" not in window(second, with_gauges(first, {})).processes[0].gauges


def with_gauges(session, gauges):
    return replace(session, processes=[replace(record, gauges=gauges) for record in session.processes])


def test_processes_that_began_later_are_whole(process):
    timing, file, read = process
    spend(timing, 2)
    file.flush()
    (record,) = window(read(), Session(0.0)).processes
    assert record.trees["Learner_0"].children["main_loop"].statistics.count == 2


def set_batches(file, batches, rows, prefix=""):
    for name, value in (("batch_rows", rows / batches), ("inference_batches", batches), ("inference_rows", rows)):
        file.set_gauge(prefix + name, value)
    file.flush()


@pytest.mark.parametrize("prefix", ["", "InferenceWorker_p0-w0/"])
def test_the_mean_batch_is_that_of_the_window(process, prefix):
    _, file, read = process
    set_batches(file, 1000, 2000, prefix)
    first = read()
    set_batches(file, 1010, 2160, prefix)
    second = read()
    (record,) = window(second, first).processes
    assert record.gauges[f"{prefix}batch_rows"].value == 16.0
    assert second.processes[0].gauges[f"{prefix}batch_rows"].value == pytest.approx(2160 / 1010), "of the whole run"


def test_without_a_batch_in_the_window_there_is_no_mean(process):
    _, file, read = process
    set_batches(file, 1000, 2000)
    first = read()
    file.set_gauge("batch_rows", 2.0)
    assert "batch_rows" not in window(read(), first).processes[0].gauges


def test_runs_that_recorded_the_mean_alone_keep_it(process):
    _, file, read = process
    file.set_gauge("batch_rows", 2.0)
    first = read()
    file.set_gauge("batch_rows", 3.0)
    assert window(read(), first).processes[0].gauges["batch_rows"].value == 3.0
    set_batches(file, 10, 40)
    assert window(read(), first).processes[0].gauges["batch_rows"].value == 4.0, "all of them came since then"
