"""What is written to standard output and error when nobody reads it, or there is no room for it."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import weakref

import pytest

from sample_profiler.runtime.surroundings.outputs import Output, keep_outputs, outputs_kept


def broken_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def dead_terminal():
    terminal, its_end = os.openpty()
    os.close(terminal)
    return its_end


OPENED = pytest.mark.parametrize(
    "open_output", [broken_pipe, dead_terminal, lambda: os.open("/dev/full", os.O_WRONLY)], ids=["pipe", "pty", "full"]
)


def write_lines(output):
    output.writelines(["several\n", "lines\n"])
    output.flush()


def write_bytes(output):
    output.buffer.write(b"bytes\n")
    output.buffer.flush()


def write_text(output):
    output.write("text\n")
    output.flush()


def test_characters_that_a_stream_does_not_have_are_escaped_and_what_is_there_stays():
    file = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    output = Output(file)
    assert output.write("ü … 日\n") == 6
    assert output.problem == ""
    output.flush()
    assert file.buffer.getvalue() == b"\xfc \\u2026 \\u65e5\n"


def test_commands_write_what_they_have_to_say_whatever_the_encoding():
    variables = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "sample_profiler", "export", "--help"]
    done = subprocess.run(command, env=variables, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u2026" in done.stdout


WRITES = [write_text, write_lines, write_bytes]


@OPENED
@pytest.mark.parametrize("write", WRITES, ids=["text", "lines", "bytes"])
def test_what_cannot_be_written_is_dropped_and_nothing_waits_to_be_written_later(open_output, write):
    with open(open_output(), "w") as file:
        for _ in range(3):
            write(Output(file))
        file.flush()  # as Python does at its end


@OPENED
def test_what_is_written_more_than_a_buffer_holds_is_dropped_too(open_output):
    with open(open_output(), "w") as file:
        output = Output(file)
        for _ in range(1000):
            output.write("x" * 100)
        output.flush()
        assert output.problem


def test_all_else_is_as_the_stream_has_it():
    file = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    output = Output(file)
    assert (output.encoding, output.isatty(), output.writable()) == ("latin-1", False, True)
    output.write("grün\n")
    assert output.write("!") == 1
    output.flush()
    output.buffer.write(b"?")
    assert file.buffer.getvalue() == "grün\n!?".encode("latin-1")
    with pytest.raises(AttributeError, match="has no attribute 'buffer'"):
        _ = Output(io.StringIO()).buffer


def test_streams_of_the_caller_are_his_again_afterwards():
    mine = io.StringIO()
    with contextlib.redirect_stdout(mine), contextlib.redirect_stderr(mine):
        with outputs_kept():
            assert sys.stdout is not mine
            sys.stdout.write("within ")
            with outputs_kept():
                sys.stderr.write("twice ")
            sys.stdout.write("still ")
        assert sys.stdout is sys.stderr is mine
        sys.stdout.write("after")
    assert mine.getvalue() == "within twice still after"


def test_who_prints_in_another_thread_at_the_end_finds_what_it_prints_to():
    """`print` does not hold what it looks up: where it is gone, the process crashes."""
    with outputs_kept():
        kept = weakref.ref(sys.stdout)
    assert sys.stdout is not kept()
    assert isinstance(kept(), Output)


def test_a_stream_that_somebody_has_set_or_closed_meanwhile_is_left_alone():
    mine, theirs = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(mine), contextlib.redirect_stderr(mine):
        with outputs_kept():
            sys.stdout = theirs
            mine.close()
        assert sys.stdout is theirs
        assert sys.stderr is mine


def test_without_a_stream_there_is_none(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    keep_outputs()
    assert sys.stdout is None
    with outputs_kept():
        assert sys.stdout is None


SCRIPT = """
import os, sys
from sample_profiler.runtime.surroundings.outputs import outputs_kept
reading, writing = os.pipe(); os.close(reading); os.dup2(writing, 1)
with outputs_kept():
    print("waits in the buffer of a stream that nobody reads")
"""


def test_what_waits_to_be_written_does_not_fail_the_end_of_the_program():
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    unkept = SCRIPT.replace("with outputs_kept():", "if True:")
    assert subprocess.run([sys.executable, "-c", unkept], capture_output=True, check=False).returncode != 0
