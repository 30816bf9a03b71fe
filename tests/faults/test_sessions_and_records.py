"""Sessions, record files and configurations, damaged anyhow: every command shows them or says why it cannot."""

from __future__ import annotations

import copy
import json
import math
import multiprocessing
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_profiler.cli.main import main
from sample_profiler.config import load_config, parse_config, save_config
from sample_profiler.errors import ConfigError
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session.session import read_live
from sample_profiler.profiling.tree.gauges import GaugeNode
from sample_profiler.reports.merged.traces import merge_chrome_traces
from sample_profiler.run_folder import RunFolder
from tests.faults.fuzzing import fuzzed, spoil, spoiled_bytes

COMMANDS = (("status",), ("report", "--format=text"), ("report", "--format=json"), ("report",), ("trace",), ("watch",))


def record_a_run(live: Path) -> None:
    """Write what the components of a run record; all of them have ended in order."""
    live.mkdir(parents=True)
    for name in ("Learner_0", "RolloutWorker_w0", "Runner"):
        timing = Timing(f"{name} profile")
        file = RecordFile(live / f"{name}.1.rec", process_name=name, ring_bytes=1 << 12, num_slots=16)
        file.attach(timing, name)
        for _ in range(3):
            with timing.add_time("main_loop"), timing.add_time("train" if name == "Learner_0" else "wait_inference"):
                pass
        file.close()


@pytest.fixture(scope="module")
def good_run(tmp_path_factory) -> Path:
    """A run that has ended: recordings, session and steady part; nothing in it is touched."""
    folder = tmp_path_factory.mktemp("good") / "run"
    folder.mkdir()
    save_config(parse_config(["--env=calm", "--rollout=8"]), folder / "config.json")
    # By a process that is gone: of one that lives, a flipped bit makes a run that goes on, which `watch` follows.
    recorder = multiprocessing.get_context("spawn").Process(target=record_a_run, args=(RunFolder(folder).live().path,))
    recorder.start()
    recorder.join()
    assert recorder.exitcode == 0
    session = read_live(folder)
    session.processes[0].gauges = {"fps": GaugeNode(3.0), "odd": GaugeNode(math.inf)}
    session.run |= {"history": {"fps": [[1.0, 10.0], [2.0, 30.0]]}, "history_start_s": 1_700_000_000.0}
    session.run |= {"fps": 20.0, "frames": {"0": 640}, "reason": "over"}
    session.save(RunFolder(folder).session)
    session.save(RunFolder(folder).steady)
    captured_path(folder).parent.mkdir()
    captured_path(folder).write_text(json.dumps(TRACE | {"baseTimeNanoseconds": time.time_ns()}))
    return folder


def captured_path(folder: Path) -> Path:
    return folder / "profile" / "captures" / "torch_x.json"


def check_answers(folder: Path, capsys: Any) -> None:
    """Run everything that reads a run's folder: it has to be done, or refused in one line."""
    for command, *flags in (*COMMANDS, ("diff", str(folder))):
        status = main([command, str(folder), *flags])
        errors = capsys.readouterr().err
        assert status in (0, 2), (command, status)
        assert "Traceback" not in errors
        assert (status == 0) or len(errors.strip().splitlines()) == 1, errors


def check_commands(folder: Path, capsys: Any) -> None:
    """Run everything that reads a run's folder: it has to answer, and to change nothing of what it reads."""
    before = {path: path.read_bytes() for path in (folder / "profile").rglob("*.json")}
    check_answers(folder, capsys)
    assert {path: path.read_bytes() for path in before} == before, "nothing that is read is overwritten"


def copy_of(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / "run"))


def test_a_run_that_is_whole_is_shown(good_run, tmp_path):
    for live in (True, False):
        folder = copy_of(good_run, tmp_path / str(live))
        if live:
            RunFolder(folder).session.unlink()
        else:
            shutil.rmtree(RunFolder(folder).live().path)
        statuses = {command: main([command, str(folder), *flags]) for command, *flags in COMMANDS}
        assert statuses == {"status": 0, "report": 0, "trace": 0, "watch": 2}, "it is over, there is nothing to watch"


@given(data=st.data())
@fuzzed
def test_mutated_values_in_sessions(good_run, tmp_path_factory, capsys, data):
    folder = copy_of(good_run, tmp_path_factory.mktemp("session"))
    shutil.rmtree(RunFolder(folder).live().path)
    for path in (RunFolder(folder).session, RunFolder(folder).steady):
        document = spoil(json.loads(path.read_text()), data.draw)
        path.write_text(json.dumps(document))
    check_commands(folder, capsys)


@pytest.mark.parametrize(
    "run",
    [
        *({"history": {"fps": [[1.0, 10**400]]}}, {"history": {"fps": [[1e305, 1.0]]}}),
        *({"history_start_s": math.inf}, {"history_start_s": 1e305}, {"history_start_s": 10**400}),
    ],
    ids=lambda run: f"{run!r:.40}",
)
def test_figures_of_a_run_that_are_out_of_all_bounds(good_run, tmp_path, capsys, run):
    folder = copy_of(good_run, tmp_path)
    shutil.rmtree(RunFolder(folder).live().path)
    document = json.loads(RunFolder(folder).session.read_text())
    document["run"] |= run
    RunFolder(folder).session.write_text(json.dumps(document))
    check_commands(folder, capsys)
    killed = copy_of(good_run, tmp_path / "killed")
    RunFolder(killed).session.unlink()
    history = {"history_start_s": 1_700_000_000.0, "history": {"fps": [[1.0, 10.0]]}} | run
    RunFolder(killed).history.write_text(json.dumps(history))
    assert main(["trace", str(killed)]) == 0
    check_commands(killed, capsys)


@given(data=st.data())
@fuzzed
def test_damaged_sessions(good_run, tmp_path_factory, capsys, data):
    folder = copy_of(good_run, tmp_path_factory.mktemp("session"))
    shutil.rmtree(RunFolder(folder).live().path)
    path = RunFolder(folder).session
    path.write_bytes(data.draw(spoiled_bytes(path.read_bytes())))
    check_commands(folder, capsys)


@given(data=st.data())
@fuzzed
def test_damaged_record_files(good_run, tmp_path_factory, capsys, data):
    folder = copy_of(good_run, tmp_path_factory.mktemp("records"))
    RunFolder(folder).session.unlink()
    for path in sorted(RunFolder(folder).live().path.iterdir()):
        path.write_bytes(data.draw(spoiled_bytes(path.read_bytes())))
    check_commands(folder, capsys)


@given(data=st.data())
@fuzzed
def test_mutated_configurations_of_a_run_that_is_looked_at(good_run, tmp_path_factory, capsys, data):
    folder = copy_of(good_run, tmp_path_factory.mktemp("config"))
    RunFolder(folder).session.unlink()
    path = folder / "config.json"
    path.write_text(json.dumps(spoil(json.loads(path.read_text()), data.draw)))
    check_commands(folder, capsys)


@pytest.mark.parametrize("kind", ["pipe", "endless", "folder", "hole"])
@pytest.mark.parametrize("name", ["config.json", "session.json", "steady.json", "history.json", "torch_1.json"])
def test_what_is_no_file_or_has_no_end_is_neither_waited_for_nor_read(good_run, tmp_path, capsys, name, kind):
    folder = copy_of(good_run, tmp_path)
    if name in ("session.json", "steady.json"):
        shutil.rmtree(RunFolder(folder).live().path)
    else:
        RunFolder(folder).session.unlink()
    places = {"config.json": folder, "torch_1.json": folder / "profile" / "captures"}
    path = places.get(name, folder / "profile") / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    make_unreadable(path, kind)
    check_answers(folder, capsys)


@pytest.mark.parametrize("kind", ["pipe", "endless", "folder", "hole"])
def test_a_configuration_that_is_no_file_or_has_no_end_is_one_error(tmp_path, kind):
    make_unreadable(tmp_path / "config.json", kind)
    with pytest.raises(ConfigError, match=r"config.json cannot be read: it (is no file|has 1,099,511,627,776 bytes)"):
        load_config(tmp_path / "config.json")


def make_unreadable(path: Path, kind: str) -> None:
    """Make what nobody who reads a file of that name gets to the end of."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)


TRACE = {
    "baseTimeNanoseconds": 1_700_000_000_000_000_000,
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 2, "ts": 10.5, "dur": 3, "args": {"a": 1}},
        {"ph": "s", "id": 3, "cat": "ac2g", "name": "ac2g", "pid": 1, "tid": 2, "ts": 10.5},
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 2, "args": {"name": "python"}},
    ],
}


@pytest.mark.parametrize(
    "event",
    [
        *({"ph": "M", "name": "process_name"}, {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2}),
        *({"ph": "M", "name": "process_name", "args": {"name": "python"}}, {"ph": "i", "pid": [1]}),
        *({"ph": "M", "name": "process_name", "pid": 1, "args": [1]}, {"ph": "X", "ts": 1, "args": {"a": math.nan}}),
        {"ph": "X", "ts": 1, "tid": {}},
    ],
    ids=repr,
)
def test_a_captured_trace_with_a_damaged_event_is_left_out_of_the_timeline(good_run, tmp_path, capsys, event):
    folder = copy_of(good_run, tmp_path)
    trace = json.loads(captured_path(folder).read_text())
    trace["traceEvents"].append(event)
    captured_path(folder).write_text(json.dumps(trace))
    assert main(["trace", str(folder)]) == 0
    assert "a capture is left out, or its end: " in capsys.readouterr().err
    check_commands(folder, capsys)


def test_a_captured_trace_whose_times_count_from_nowhere_is_left_out(good_run, tmp_path, capsys):
    folder = copy_of(good_run, tmp_path)
    captured_path(folder).write_text(json.dumps(TRACE | {"baseTimeNanoseconds": 10**400}))
    assert main(["trace", str(folder)]) == 0
    assert "a capture is left out, or its end: " in capsys.readouterr().err


@given(data=st.data())
@fuzzed
def test_mutated_captures_of_a_run(good_run, tmp_path_factory, capsys, data):
    folder = copy_of(good_run, tmp_path_factory.mktemp("captures"))
    captured_path(folder).write_text(json.dumps(spoil(json.loads(captured_path(folder).read_text()), data.draw)))
    assert main(["trace", str(folder)]) == 0
    assert "Traceback" not in capsys.readouterr().err


@given(data=st.data())
@fuzzed
def test_mutated_traces(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("traces")
    path = folder / "part.json"
    path.write_text(json.dumps(spoil(copy.deepcopy(TRACE), data.draw)))
    output = folder / "merged.json"
    try:
        merge_chrome_traces({"Learner_0": path}, output)
    except ValueError as error:
        assert str(path) in str(error)
        assert not output.exists()
    else:
        assert isinstance(json.loads(output.read_text())["traceEvents"], list)


@pytest.mark.parametrize("data", [b"", b"\0" * 4096, b"[" * 100_000, b"{}", b"\x80\x04]", b'{"schema_version": 2}'])
def test_what_is_no_session_is_refused_and_kept(good_run, tmp_path, capsys, data):
    folder = copy_of(good_run, tmp_path)
    shutil.rmtree(RunFolder(folder).live().path)
    RunFolder(folder).session.write_bytes(data)
    assert main(["report", str(folder)]) == 2
    assert str(RunFolder(folder).session) in capsys.readouterr().err
    assert RunFolder(folder).session.read_bytes() == data
