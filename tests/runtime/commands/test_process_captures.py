"""Captures of this process, begun and ended by commands, or by their time."""

from __future__ import annotations

import logging
import pstats
import sys
from pathlib import Path

import pytest

from sample_profiler.errors import CaptureError
from sample_profiler.runtime.commands import process_captures
from sample_profiler.runtime.commands.process_captures import (
    end_captures,
    end_due_captures,
    start_capture,
    stop_capture,
)
from sample_profiler.runtime.messages.heartbeats import CAPTURE_S


@pytest.fixture(autouse=True)
def _nothing_is_left_running():
    assert sys.getprofile() is None
    yield
    end_captures()
    process_captures._ended.clear()
    assert sys.getprofile() is None


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now_s = 100.0

        def monotonic(self):
            return self.now_s

    clock = Clock()
    monkeypatch.setattr(process_captures, "time", clock)
    return clock


def work():
    return sum(range(100))


def test_a_capture_lasts_from_its_begin_to_its_end(tmp_path):
    path = tmp_path / "new" / "part.pstats"
    assert start_capture("cprofile", str(path)) is None
    work()
    facts = stop_capture("cprofile")
    assert facts["path"] == str(path)
    assert facts["start_ns"] < facts["end_ns"]
    assert not facts["is_empty"]
    assert any(name == "work" for _, _, name in pstats.Stats(str(path)).stats)


def test_ending_what_has_not_begun_does_nothing(tmp_path):
    assert stop_capture("cprofile") is None
    start_capture("cprofile", str(tmp_path / "part"))
    assert stop_capture("cprofile") is not None
    assert stop_capture("cprofile") is None


def test_a_capture_can_follow_another(tmp_path):
    for name in ("first", "second"):
        start_capture("cprofile", str(tmp_path / name))
        work()
        assert not stop_capture("cprofile")["is_empty"]


def test_the_same_tool_twice_is_an_error_and_the_first_goes_on(tmp_path):
    start_capture("cprofile", str(tmp_path / "first"))
    with pytest.raises(CaptureError, match="cprofile is capturing in this process already: wait"):
        start_capture("cprofile", str(tmp_path / "second"))
    work()
    assert stop_capture("cprofile")["path"] == str(tmp_path / "first")


@pytest.mark.parametrize(("first", "second"), [("cprofile", "pyinstrument"), ("yappi", "cprofile")])
def test_two_tools_that_need_the_interpreters_hook_exclude_each_other(tmp_path, first, second):
    pytest.importorskip(first if first != "cprofile" else second)
    start_capture(first, str(tmp_path / "first"))
    with pytest.raises(CaptureError, match=f"{first} is capturing in this process already"):
        start_capture(second, str(tmp_path / "second"))
    assert stop_capture(first) is not None


def test_torch_and_another_tool_go_together(tmp_path):
    pytest.importorskip("torch")
    start_capture("torch", str(tmp_path / "trace.json"))
    start_capture("cprofile", str(tmp_path / "part"))
    assert stop_capture("cprofile") is not None
    assert stop_capture("torch") is not None


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="from Python 3.12 on the two go together")
def test_a_profiler_of_somebody_else_is_not_disturbed(tmp_path):
    def somebodys_hook(*_):
        return None

    sys.setprofile(somebodys_hook)
    try:
        with pytest.raises(CaptureError, match="cprofile cannot start: another profiler runs in this process"):
            start_capture("cprofile", str(tmp_path / "part"))
        assert sys.getprofile() is somebodys_hook
    finally:
        sys.setprofile(None)


def test_an_unknown_tool_is_told_which_there_are(tmp_path):
    with pytest.raises(CaptureError, match="unknown tool 'gprof'; allowed are torch, cprofile, yappi, pyinstrument"):
        start_capture("gprof", str(tmp_path / "part"))


def test_a_capture_ends_when_its_time_is_over(tmp_path, clock):
    start_capture("cprofile", str(tmp_path / "part"), 5.0)
    clock.now_s += 4.9
    end_due_captures()
    assert not (tmp_path / "part").exists()
    clock.now_s += 0.1
    end_due_captures()
    assert (tmp_path / "part").exists()
    assert sys.getprofile() is None
    assert stop_capture("cprofile")["path"] == str(tmp_path / "part")
    assert stop_capture("cprofile") is None


def test_time_to_write_is_asked_for_before_a_capture_ends_by_itself(tmp_path, clock):
    beats = []
    start_capture("cprofile", str(tmp_path / "part"), 5.0)
    end_due_captures(lambda patience_s: beats.append((patience_s, (tmp_path / "part").exists())))
    assert beats == []
    clock.now_s += 5
    end_due_captures(lambda patience_s: beats.append((patience_s, (tmp_path / "part").exists())))
    assert beats == [(CAPTURE_S, False), (0.0, True)]


def test_a_capture_without_a_limit_goes_on(tmp_path, clock):
    start_capture("cprofile", str(tmp_path / "part"))
    clock.now_s += 1e9
    end_due_captures()
    assert not (tmp_path / "part").exists()
    work()
    assert not stop_capture("cprofile")["is_empty"]


def test_a_new_capture_forgets_the_facts_of_one_that_nobody_asked_for(tmp_path, clock):
    start_capture("cprofile", str(tmp_path / "old"), 1.0)
    clock.now_s += 2
    end_due_captures()
    start_capture("cprofile", str(tmp_path / "new"))
    assert stop_capture("cprofile")["path"] == str(tmp_path / "new")


def test_a_part_that_cannot_be_written_at_its_time_is_an_error_for_whoever_asks(tmp_path, clock, caplog):
    (tmp_path / "file").write_text("")
    start_capture("cprofile", str(tmp_path / "file" / "part"), 1.0)
    clock.now_s += 2
    with caplog.at_level(logging.WARNING):
        end_due_captures()
    assert "The capture with cprofile is lost" in caplog.text
    with pytest.raises(CaptureError, match="its part cannot be written"):
        stop_capture("cprofile")


def test_one_that_gave_way_before_its_time_says_to_whom(tmp_path, clock, caplog):
    torch = pytest.importorskip("torch")
    start_capture("torch", str(tmp_path / "part"), 1.0)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        pass
    clock.now_s += 2
    end_due_captures()
    assert "is lost" not in caplog.text, "it is no fault"
    with pytest.raises(CaptureError, match=r"^torch had to give way to another profiler .* \(torch\.profiler\)"):
        stop_capture("torch")
    assert not (tmp_path / "part").exists()


def test_a_part_that_cannot_be_written_leaves_no_profiler_behind(tmp_path):
    (tmp_path / "file").write_text("")
    start_capture("cprofile", str(tmp_path / "file" / "part"))
    with pytest.raises(OSError):
        stop_capture("cprofile")
    assert sys.getprofile() is None
    start_capture("cprofile", str(tmp_path / "part"))
    assert stop_capture("cprofile") is not None


def test_the_end_of_the_run_writes_what_there_is(tmp_path):
    start_capture("cprofile", str(tmp_path / "part"))
    work()
    end_captures()
    assert pstats.Stats(str(tmp_path / "part")).stats
    assert stop_capture("cprofile") is None


def test_one_that_fails_at_the_end_of_the_run_is_a_warning_and_does_not_keep_others_from_being_written(
    tmp_path, caplog
):
    pytest.importorskip("torch")
    (tmp_path / "file").write_text("")
    for lost, kept in (("cprofile", "torch"), ("torch", "cprofile")):
        paths = {lost: tmp_path / "file" / "part", kept: tmp_path / f"{kept}.part"}
        for tool in ("torch", "cprofile"):
            start_capture(tool, str(paths[tool]))
        caplog.clear()
        end_captures()
        assert f"The capture with {lost} is lost" in caplog.text
        assert Path(paths[kept]).exists()
        assert sys.getprofile() is None
