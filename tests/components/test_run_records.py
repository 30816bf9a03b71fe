"""What the Runner does about record files while the run goes on."""

from __future__ import annotations

import json
import time

import pytest

from sample_profiler.components.run_records import RunRecords
from sample_profiler.config import parse_config
from sample_profiler.profiling import Timing
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


def test_ml6_the_root_of_a_run_s_timers_has_been_open_since_the_run_began(tmp_path, monkeypatch):
    live_folder(tmp_path).mkdir(parents=True)
    now_s = time.monotonic()
    records = RunRecords(tmp_path, parse_config(["--env=e"]).profiling)
    timing = Timing("Learner 0 profile")
    file = RecordFile(live_folder(tmp_path) / "Learner_0.1.rec", process_name="Learner_0", ring_bytes=0)
    file.attach(timing, "Learner_0")
    with timing.add_time("train"):
        pass
    file.flush()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + 100)
    records.write_timers()
    file.close()
    document = json.loads((tmp_path / "summary" / f"{tmp_path.name}_timers.json").read_text())
    assert (document["name"], document["count"]) == ("root", 1)
    assert document["total"] == pytest.approx(100, abs=1)
    parts_s = sum(child["total"] for child in document["children"].values())
    assert document["self"] == pytest.approx(document["total"] - parts_s)


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
