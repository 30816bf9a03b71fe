"""Captures of a process in which somebody profiles himself: theirs sees what it has to, ours is whole or refused."""

from __future__ import annotations

import json
import pstats
import sys
import threading
import time

import pytest

from sample_profiler.errors import CaptureError
from sample_profiler.profiling.captures.tools import SUFFIXES, TOOLS, begin_capture
from sample_profiler.profiling.captures.torch_profile import TorchProfile
from tests.integration.captures.self_profiling import KINDS, SelfProfiling, nothing_is_on, usable_profilers

STACKS = "torch with stacks"
"""What traces of rollouts use; there is no such tool of the command."""

ALWAYS_WHOLE = {"pyinstrument"} | ({"cprofile", "yappi"} if hasattr(sys, "monitoring") else set())
NUM_STEPS = 4


@pytest.fixture(autouse=True)
def _nothing_is_left():
    assert nothing_is_on() == []
    yield
    assert nothing_is_on() == []
    if "yappi" in sys.modules:
        sys.modules["yappi"].clear_stats()


class StacksCapture:
    """A capture with stacks, which writes nothing but whether it is whole."""

    def __init__(self, path):
        import torch

        self.path = path
        self.own = TorchProfile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True)
        self.own.start()

    def end(self):
        self.own.stop()
        self.path.write_text("{}")


def begin(tool, path):
    """Begin a capture of something; return it, or why it was refused."""
    if tool != "cprofile":
        pytest.importorskip(tool.split()[0])
    try:
        return StacksCapture(path) if tool == STACKS else begin_capture(tool, path)
    except (CaptureError, ValueError) as error:
        return str(error)


def end(capture, path):
    """End what `begin` has returned; return why it was refused, or None if it is whole."""
    if isinstance(capture, str):
        return capture
    try:
        capture.end()
    except CaptureError as error:
        assert not path.exists()
        return str(error)
    assert path.exists()
    return None


def marked_step(tool):
    """Is in every part that is whole, since it is called at both ends of it."""
    time.sleep(0.03 if tool == "pyinstrument" else 0)


def is_in(tool, path):
    if tool == STACKS:
        return True
    if SUFFIXES[tool] == ".pstats":
        calls = [figures[1] for (_, _, name), figures in pstats.Stats(str(path)).stats.items() if name == "marked_step"]
        return calls == [2]
    document = json.loads(path.read_text())
    return bool(document["traceEvents"] if tool == "torch" else document["profiles"])  # looks are no counts


def check(tool, path, refusal, profiling):
    assert profiling.problems == []
    assert profiling.results
    if refusal is None:
        assert is_in(tool, path)
    else:
        assert tool not in ALWAYS_WHOLE or profiling.name == "monitoring, all"
        assert "another profiler" in refusal or "torch.profiler" in refusal or "yappi" in refusal


@pytest.mark.parametrize("name", usable_profilers())
@pytest.mark.parametrize("tool", [*TOOLS, STACKS])
@pytest.mark.parametrize("kind", KINDS)
def test_a_profiler_that_begins_while_a_capture_is_on(tmp_path, tool, name, kind):
    """With `running` theirs is still on when ours ends."""
    path = tmp_path / "part"
    profiling = SelfProfiling(name, kind)
    capture = begin(tool, path)
    marked_step(tool)
    for _ in range(2):
        profiling.reset()
        for _ in range(NUM_STEPS):
            profiling.step()
    marked_step(tool)
    refusal = end(capture, path)
    profiling.step()
    profiling.close()
    check(tool, path, refusal, profiling)


@pytest.mark.parametrize("name", usable_profilers())
@pytest.mark.parametrize("tool", [*TOOLS, STACKS])
@pytest.mark.parametrize("is_ended_first", [True, False])
def test_a_profiler_that_is_on_when_a_capture_begins(tmp_path, tool, name, is_ended_first):
    path = tmp_path / "part"
    profiling = SelfProfiling(name, "running")
    profiling.step()
    capture = begin(tool, path)
    marked_step(tool)
    profiling.step()
    if is_ended_first:
        profiling.close()
    marked_step(tool)
    refusal = end(capture, path)
    profiling.step()
    profiling.close()
    check(tool, path, refusal, profiling)
    assert end(begin(tool, path), path) is None, "nothing is in the way of the next one"


def test_statistics_of_somebody_else_are_kept(tmp_path):
    yappi = pytest.importorskip("yappi")
    if hasattr(sys, "monitoring"):
        pytest.skip("yappi is used before Python 3.12")
    yappi.start()
    marked_step("yappi")
    yappi.stop()
    with pytest.raises(CaptureError, match="somebody else uses yappi in this process, and has not cleared its"):
        begin_capture("yappi", tmp_path / "part")
    assert [found.ncall for found in yappi.get_func_stats() if found.name == "marked_step"] == [1]


def test_calls_of_all_threads_are_counted_also_when_the_place_moves(tmp_path):
    if not hasattr(sys, "monitoring"):
        pytest.skip("sys.monitoring is of Python 3.12")
    capture = begin_capture("yappi", tmp_path / "part")
    is_wanted, is_over = threading.Semaphore(0), threading.Semaphore(0)

    def serve():
        for _ in range(3):
            is_wanted.acquire()
            marked_step("yappi")
            is_over.release()

    thread = threading.Thread(target=serve)
    thread.start()
    for place in (5, 4, 3):
        is_wanted.release()
        is_over.acquire()
        sys.monitoring.use_tool_id(place, "environment")
    thread.join()
    capture.end()
    for place in (5, 4, 3):
        sys.monitoring.free_tool_id(place)
    calls = {name: figures[1] for (_, _, name), figures in pstats.Stats(str(tmp_path / "part")).stats.items()}
    assert calls["marked_step"] == 3
