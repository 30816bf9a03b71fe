"""What the Runner does about record files while the run goes on."""

from __future__ import annotations

import time

import pytest

from sample_profiler.components.run_records import RunRecords
from sample_profiler.config import parse_config
from sample_profiler.profiling.record_file import RecordFile
from sample_profiler.profiling.session import history_path, live_folder, read_live, read_session


def test_a_timeline_whose_window_never_began_is_missed_aloud(tmp_path, caplog):
    records = RunRecords(tmp_path, parse_config(["--env=e", "--timeline_seconds=100:5"]).profiling)
    records.follow_timeline()
    assert not caplog.messages
    records.end_timeline()
    assert "the run ended before second 100" in caplog.text


def test_the_steady_part_begins_with_the_figures_of_its_first_moment(tmp_path):
    live_folder(tmp_path).mkdir(parents=True)
    file = RecordFile(live_folder(tmp_path) / "Runner.1.rec", process_name="Runner", ring_bytes=0)
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    file.set_gauge("frames", 0.0)
    updates = []

    def update():
        updates.append(1)
        file.set_gauge("frames", 1000.0)

    records.begin_steady_part(update)
    records.begin_steady_part(update)
    assert updates == [1]
    file.set_gauge("frames", 1000.0)
    assert records.end_steady_part().processes[0].gauges["frames"].value == 0.0, "all frames came before it"
    file.close()


def test_figures_over_time_can_be_read_while_the_run_goes_on_and_are_in_its_session(tmp_path):
    live_folder(tmp_path).mkdir(parents=True)
    file = RecordFile(live_folder(tmp_path) / "Runner.1.rec", process_name="Runner", ring_bytes=0)
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    for fps in (10.0, 30.0):
        file.set_gauge("fps", fps)
        file.flush()
        records.write_timers()
    run = read_live(tmp_path).run
    assert [value for _, value in run["history"]["fps"]] == [10.0, 30.0]
    assert run["history_start_s"] == pytest.approx(time.time(), abs=60)
    file.close()
    session = records.write_session({"reason": "enough"}, is_clean=True)
    assert not history_path(tmp_path).exists()
    saved = read_session(tmp_path).run
    assert saved["history_start_s"] == session.run["history_start_s"] == run["history_start_s"]
    assert [value for _, value in saved["history"]["fps"]] == [10.0, 30.0]
    records.write_timers()
    RunRecords(tmp_path, parse_config(["--env=e"]).profiling).clear()
    assert "history" not in read_live(tmp_path).run, "of an earlier run"
