"""Other profilers in this process: each is begun, sees what runs, and leaves a file that its own loader reads."""

from __future__ import annotations

import json
import os
import pstats
import sys
import threading
import time

import pytest

from sample_profiler.errors import CaptureError
from sample_profiler.profiling.captures.tools import SUFFIXES, TOOLS, begin_capture


@pytest.fixture(autouse=True)
def _no_hook_is_left():
    assert sys.getprofile() is None
    yield
    assert sys.getprofile() is None


def busy_for(seconds):
    until_s = time.perf_counter() + seconds
    while time.perf_counter() < until_s:
        sum(range(200))


def names_in(tool, path):
    """Return the names of functions, or of operators, in a document."""
    if SUFFIXES[tool] == ".pstats":
        return {name for _, _, name in pstats.Stats(str(path)).stats}
    document = json.loads(path.read_text())
    if SUFFIXES[tool] == ".speedscope.json":
        return {frame["name"] for frame in document["shared"]["frames"]}
    return {event["name"] for event in document["traceEvents"]}


kept = []


def allocate(num_bytes):
    return bytearray(num_bytes)


def do_work(tool):
    if tool == "torch":
        torch = pytest.importorskip("torch")
        torch.ones(8, 8) @ torch.ones(8, 8)
        return "aten::matmul"
    if tool != "cprofile":
        pytest.importorskip(tool)
    if tool == "memray":
        kept.append(allocate(1000))
        return "allocate"
    busy_for(0.1 if tool == "pyinstrument" else 0.01)
    return "busy_for"


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_sees_what_runs_between_its_begin_and_its_end(tmp_path, tool):
    do_work(tool)  # what is imported and warmed up first is no matter of the capture
    path = tmp_path / "new" / f"part{SUFFIXES[tool]}"
    before_ns = time.perf_counter_ns()
    capture = begin_capture(tool, path)
    assert capture.tool == tool
    expected = do_work(tool)
    facts = capture.end()
    assert expected in names_in(tool, path)
    assert facts["path"] == str(path)
    assert not facts["is_empty"]
    assert before_ns <= facts["start_ns"] < facts["end_ns"] <= time.perf_counter_ns()
    assert os.listdir(path.parent) == [path.name]  # no temporary file


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_can_be_used_again_and_begins_anew(tmp_path, tool):
    do_work(tool)
    first = begin_capture(tool, tmp_path / "first")
    do_work(tool)
    first.end()
    second = begin_capture(tool, tmp_path / "second")
    facts = second.end()
    assert not {"allocate", "busy_for", "aten::matmul"} & names_in(tool, tmp_path / "second")
    assert (tmp_path / "second").exists()
    assert facts["path"] == str(tmp_path / "second")


def test_yappi_sees_other_threads(tmp_path):
    pytest.importorskip("yappi")
    capture = begin_capture("yappi", tmp_path / "part.pstats")
    thread = threading.Thread(target=busy_for, args=(0.01,))
    thread.start()
    thread.join()
    capture.end()
    assert "busy_for" in names_in("yappi", tmp_path / "part.pstats")


def test_torch_without_an_operator_has_recorded_nothing(tmp_path):
    pytest.importorskip("torch")
    facts = begin_capture("torch", tmp_path / "trace.json").end()
    assert facts["is_empty"]
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]  # still a trace


uses_yappi = pytest.mark.skipif(hasattr(sys, "monitoring"), reason="yappi is used before Python 3.12")


@pytest.mark.parametrize("tool", [pytest.param("yappi", marks=uses_yappi), "pyinstrument"])
def test_a_tool_that_is_missing_names_the_extra(tmp_path, monkeypatch, tool):
    monkeypatch.setitem(sys.modules, tool, None)
    with pytest.raises(CaptureError, match=rf"{tool} is not installed: pip install 'sample_profiler\[profilers\]'"):
        begin_capture(tool, tmp_path / "part")
    assert not (tmp_path / "part").exists()


def test_without_torch_the_error_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(CaptureError, match=r"torch cannot be imported: .*: install torch"):
        begin_capture("torch", tmp_path / "part")


def test_an_unknown_tool_is_told_which_there_are(tmp_path):
    with pytest.raises(CaptureError, match="unknown tool 'perf'; allowed are torch, cprofile, yappi, pyinstrument"):
        begin_capture("perf", tmp_path / "part")


@uses_yappi
def test_yappi_twice_is_an_error_and_the_first_goes_on(tmp_path):
    pytest.importorskip("yappi")
    first = begin_capture("yappi", tmp_path / "first")
    try:
        with pytest.raises(CaptureError, match=r"yappi cannot start: .*: end the other profiler of this process first"):
            begin_capture("yappi", tmp_path / "second")
        expected = do_work("yappi")
    finally:
        first.end()
    assert expected in names_in("yappi", tmp_path / "first")


def test_a_file_that_cannot_be_written_is_an_error_and_the_profiler_is_off(tmp_path):
    (tmp_path / "file").write_text("")
    capture = begin_capture("cprofile", tmp_path / "file" / "part.pstats")
    with pytest.raises(OSError):
        capture.end()
    assert sys.getprofile() is None
    assert os.listdir(tmp_path) == ["file"]


def test_an_older_file_of_that_name_is_replaced_whole(tmp_path):
    path = tmp_path / "part.pstats"
    path.write_text("old")
    capture = begin_capture("cprofile", path)
    assert path.read_text() == "old"
    do_work("cprofile")
    capture.end()
    assert "busy_for" in names_in("cprofile", path)


def test_torch_that_captures_already_is_left_to_it(tmp_path):
    torch = pytest.importorskip("torch")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        with pytest.raises(CaptureError, match=r"torch cannot start: torch\.profiler captures in this process already"):
            begin_capture("torch", tmp_path / "trace.json")
        do_work("torch")
    assert "aten::matmul" in {row.key for row in profile.key_averages()}
    begin_capture("torch", tmp_path / "trace.json").end()


@pytest.mark.parametrize(("is_initialized", "expected"), [(False, {"CPU"}), (True, {"CPU", "CUDA"})])
def test_a_process_that_uses_no_gpu_does_not_begin_to_for_a_capture(tmp_path, monkeypatch, is_initialized, expected):
    torch = pytest.importorskip("torch")
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: is_initialized)
    monkeypatch.setattr(torch.profiler, "profile", lambda activities: asked.extend(activities) or FakeProfile())
    begin_capture("torch", tmp_path / "trace.json")._profiler.stop()
    assert {activity.name for activity in asked} == expected


class FakeProfile:
    def start(self):
        pass

    def stop(self):
        pass
