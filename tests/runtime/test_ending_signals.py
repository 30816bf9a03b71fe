"""Signals are held for a while, and a dead terminal is dropped; what ends children is in test_child.py."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading

import pytest

from sample_profiler.runtime.ending_signals import ENDING_SIGNALS, EndedBySignal, signals_held, signals_raising

WRITE = "print('before'); input(); print('begun', end=''); drop_dead_terminal(); print('nowhere')"
SCRIPT = f"from sample_profiler.runtime.ending_signals import drop_dead_terminal; {WRITE}"


def write_after_closing(closes: bool, script: str = SCRIPT) -> int:
    """Return the exit status of a process that writes to a terminal, which is closed meanwhile or not."""
    terminal, its_end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=its_end,
        stderr=its_end,
        start_new_session=True,  # not the terminal's: it gets no SIGHUP
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    ) as process:
        os.close(its_end)
        try:
            read_until(terminal, b"before\r\n")
            if closes:
                os.close(terminal)
            process.communicate(b"go on\n", timeout=30)
            if not closes:
                read_until(terminal, b"nowhere")
                os.close(terminal)
        finally:
            process.kill()
    return process.returncode


def read_until(terminal: int, end: bytes) -> None:
    """Read what was written to a terminal, a piece of a line at a time, until there is an end like that."""
    data = b""
    while end not in data:
        data += os.read(terminal, 100)  # fails once the other end is closed and nothing is left


def test_nothing_is_written_to_a_terminal_that_is_gone_where_it_would_fail():
    assert write_after_closing(True) == 0
    assert write_after_closing(True, SCRIPT.replace("; drop_dead_terminal()", "")) != 0, "else it would fail"


def test_a_terminal_that_is_there_is_kept():
    assert write_after_closing(False) == 0


def held_signals():
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_signals_are_held_for_a_while_in_the_main_thread():
    before = held_signals()
    with signals_held():
        assert held_signals() == before | set(ENDING_SIGNALS)
    assert held_signals() == before


SPAWN = """
import multiprocessing, signal
from sample_profiler.runtime.ending_signals import ENDING_SIGNALS, EndedBySignal, signals_held, signals_raising
with signals_held():
    process = multiprocessing.get_context("spawn").Process(target=int)
    process.start()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, ())
process.join()
raise SystemExit(held != set(ENDING_SIGNALS))
"""


def test_signals_are_still_held_once_the_first_process_of_all_was_spawned():
    assert subprocess.run([sys.executable, "-c", SPAWN], timeout=60).returncode == 0


def test_in_another_thread_nothing_is_held():
    held = []

    def look():
        with signals_held():
            held.append(held_signals() & set(ENDING_SIGNALS))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert held == [set()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_where_signals_raise_what_is_open_is_closed(number):
    closed = []
    with contextlib.ExitStack() as stack, pytest.raises(EndedBySignal) as caught, signals_raising():
        stack.callback(closed.append, True)
        signal.raise_signal(number)
    assert (caught.value.number, str(caught.value)) == (number, f"Ended by {number.name}")
    assert closed == [True]
    assert signal.getsignal(number) is signal.SIG_DFL


def test_signals_that_are_ignored_or_handled_stay_so(monkeypatch):
    seen = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.signal(signal.SIGTERM, lambda *_: seen.append(True))
    try:
        with signals_raising():
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
        assert seen == [True]
    finally:
        signal.signal(signal.SIGHUP, before[0])
        signal.signal(signal.SIGTERM, before[1])


def test_a_process_that_was_forked_where_signals_raise_dies_of_them():
    """Vectors of environments fork, and end their processes by SIGTERM."""
    with signals_raising():
        if not (pid := os.fork()):
            signal.raise_signal(signal.SIGTERM)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM
