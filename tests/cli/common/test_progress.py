"""What a command shows while it takes long: in a terminal, of what takes longer than a second, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from sample_profiler.cli.common import progress
from sample_profiler.cli.common.progress import Course, describe_left, progress_shown


@pytest.fixture
def clock(monkeypatch):
    now = [50.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_the_time_left_is_that_of_the_same_speed_and_counts_down(clock):
    course = Course("comparing", total=8)
    course.reach(0)
    assert course.left_s() is None
    clock[0] += 30
    course.reach(2, "run 3")
    assert (course.text, course.share, course.left_s()) == ("run 3", 0.25, 90.0)
    clock[0] += 10
    assert (course.left_s(), course.passed_s()) == (80.0, 40.0)
    clock[0] += 1000
    assert course.left_s() == 0.0


def test_what_was_done_before_tells_nothing_of_the_speed(clock):
    course = Course("training", total=1.0)
    course.reach(0.5)
    clock[0] += 10
    course.reach(0.75)
    assert course.left_s() == 10.0
    course.reach(7.0)
    assert (course.share, course.left_s()) == (1.0, 0.0)


def test_of_what_has_no_end_nobody_knows_how_long_it_takes(clock):
    course = Course("reading")
    course.reach(0.0)
    clock[0] += 5
    course.reach(1.0)
    assert (course.left_s(), course.share, course.passed_s()) == (None, 0.0, 5.0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (0.4, "0:00 left"), (61, "1:01 left"), (3599.6, "1:00:00 left")]
)
def test_times_left_are_short(seconds, text):
    assert describe_left(seconds) == text


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_only_a_terminal_is_shown_anything_and_only_what_takes_long(monkeypatch):
    for stream, patience_s, is_shown in (
        (Terminal(), 0.0, True),
        (Terminal(), 60.0, False),
        (io.StringIO(), 0.0, False),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(progress, "_PATIENCE_S", patience_s)
        monkeypatch.setattr(progress, "_PULSE_S", 0.01)
        asked = threading.Event()
        with progress_shown("looking", 4, lambda asked=asked: asked.set() or 1) as course:
            assert not is_shown or asked.wait(20)
            assert course.total == 4
        assert ("looking" in stream.getvalue()) == is_shown
        assert not [thread for thread in threading.enumerate() if thread.name == "progress"]


PROGRAM = """\
import threading
from sample_profiler.cli.common import progress
progress._PATIENCE_S, progress._PULSE_S = 0.0, 0.01
asked = threading.Semaphore(0)
with progress.progress_shown("working", 2, lambda: asked.release() or 1):
    asked.acquire()
    print("a result " * 40)
    asked.acquire()
    asked.acquire()
print("the end")
"""


@pytest.mark.parametrize("is_piped", [False, True])
def test_results_stand_above_the_bar_and_are_whole_where_another_program_reads_them(is_piped):
    ours, theirs = pty.openpty()
    output = subprocess.PIPE if is_piped else theirs
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=output, stderr=theirs, env=os.environ | {"TERM": "xterm"}
    )
    os.close(theirs)
    seen = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        try:
            while piece := terminal.read(4096):
                seen += piece
        except OSError:  # Linux says so at the end of a terminal
            pass
    piped = process.communicate()[0]
    assert process.returncode == 0
    assert b"working" in seen and b"left" in seen
    printed = piped.decode() if is_piped else re.sub(r"\x1b\[[\d?;]*[a-zA-Z]", "", seen.decode())
    assert "a result " * 8 in printed and "the end" in printed
    if is_piped:
        assert printed == "a result " * 40 + "\nthe end\n" and b"a result" not in seen
