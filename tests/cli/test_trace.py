"""`sample-profiler trace`: the events that are left of a run, read back."""

from __future__ import annotations

import gzip
import json
import os

import pytest

from sample_profiler.cli.main import main
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile


@pytest.fixture
def make_process(tmp_path):
    folder = tmp_path / "profile" / "live"
    folder.mkdir(parents=True)
    files = []

    def make(name, ring_bytes=1 << 16):
        timing = Timing(f"{name} profile")
        file = RecordFile(folder / f"{name}.1.rec", process_name=name, ring_bytes=ring_bytes)
        file.attach(timing, name)
        files.append(file)
        for _ in range(5):
            with timing.add_time("train"):
                pass
        file.flush()

    yield make
    for file in files:
        file.close()


def test_all_processes_are_in_one_trace(tmp_path, make_process, capsys):
    make_process("Learner_0")
    make_process("RolloutWorker_w0")
    assert main(["trace", str(tmp_path)]) == 0
    path = tmp_path / "profile" / "trace.json.gz"
    assert f"{path}: 10 passes of 2 processes" in capsys.readouterr().out
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"] == ["train"] * 10
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {"Learner_0", "RolloutWorker_w0"}


def test_only_the_last_seconds_if_asked(tmp_path, make_process, capsys):
    make_process("Learner_0")
    assert main(["trace", str(tmp_path), "-o", str(tmp_path / "t.json"), "--seconds", "1e-9"]) == 0
    assert "t.json: 1 passes" in capsys.readouterr().out


def test_without_events_there_is_no_trace(tmp_path, make_process, capsys):
    make_process("Learner_0", ring_bytes=0)
    assert main(["trace", str(tmp_path)]) == 2
    assert "flight_recorder_mb=0" in capsys.readouterr().err


def test_a_trace_that_cannot_be_written_is_told(tmp_path, make_process, capsys):
    make_process("Learner_0")
    assert main(["trace", str(tmp_path), "-o", str(tmp_path / "missing" / "t.json")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_a_record_file_that_is_left_out_is_told(tmp_path, make_process, capsys):
    make_process("Learner_0")
    make_process("RolloutWorker_w0")
    damaged = tmp_path / "profile" / "live" / "RolloutWorker_w0.1.rec"
    os.truncate(damaged, 20_000)
    assert main(["trace", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert "5 passes of 1 processes" in captured.out
    assert captured.err.startswith(f"cannot be read: {damaged} is truncated")
