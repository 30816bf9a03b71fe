"""The record file of a process: whoever reads it finds the gauges of a component from its first moment on."""

from __future__ import annotations

from types import SimpleNamespace

from sample_profiler import timers
from sample_profiler.profiling import Timing
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.runtime.loop.recording import Recording, RecordingOptions


def make_component(name, **gauges):
    return SimpleNamespace(name=name, timing=Timing(name), gauges=lambda: gauges)


def read(folder):
    (path,) = folder.glob("*.rec")
    return read_record_file(path).gauges


def test_of_two_runs_in_one_process_the_second_has_none_of_the_first_one_s_timers(tmp_path):
    timers.reset_timers()
    for number in (1, 2):
        folder = tmp_path / f"run {number}"
        recording = Recording(RecordingOptions(folder), "Serial")
        recording.attach(make_component("Runner"))
        with timers.hierarchical_timer("step"):
            timers.set_gauge("position", number)
        recording.close()
        (path,) = folder.glob("*.rec")
        record = read_record_file(path)
        assert record.trees["timers"].children["step"].statistics.count == 1
        assert (record.gauges["position"].count, record.gauges["position"].min_value) == (1, number)
    assert timers.get_timer_root().children["step"].count == 2
    timers.reset_timers()


def test_gauges_are_there_as_soon_as_a_component_is(tmp_path):
    """What counts up needs a first reading before a window begins, which may be soon."""
    recording = Recording(RecordingOptions(tmp_path), "Serial")
    recording.attach(make_component("First", lag=3.0))
    assert read(tmp_path)["First/lag"].value == 3.0
    assert read(tmp_path)["cpu_s"].count
    recording.attach(make_component("Second", queue=4.0))
    assert read(tmp_path)["Second/queue"].value == 4.0
    recording.close()
