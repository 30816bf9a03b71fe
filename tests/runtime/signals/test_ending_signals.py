"""Signals are held for a while, and a dead terminal is dropped; what ends children is in test_child.py."""

from __future__ import annotations

import contextlib
import logging
import os
import pty
import signal
import subprocess
import sys
import threading

import pytest

from sample_profiler.runtime.signals import ending_signals
from sample_profiler.runtime.signals.ending_signals import (
    ENDING_SIGNALS,
    EndedBySignal,
    signals_held,
    signals_raising,
    take_notice_of_children,
)

WRITE = "print('before'); input(); print('begun', end=''); drop_dead_terminal(); print('nowhere')"
SCRIPT = f"from sample_profiler.runtime.signals.ending_signals import drop_dead_terminal; {WRITE}"


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
from sample_profiler.runtime.signals.ending_signals import ENDING_SIGNALS, signals_held
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


@pytest.fixture
def default_signals():
    """Signals do what they do by default, whatever they did to whoever began the tests."""
    before = [signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)]
    yield
    for number, handler in zip((signal.SIGTERM, signal.SIGHUP), before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_where_signals_raise_what_is_open_is_closed(number):
    closed = []
    with pytest.raises(EndedBySignal) as caught, signals_raising(), contextlib.ExitStack() as stack:
        stack.callback(closed.append, True)
        signal.raise_signal(number)
    assert (caught.value.number, str(caught.value)) == (number, f"Ended by {number.name}")
    assert closed == [True]
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize(
    "numbers",
    [(signal.SIGTERM, signal.SIGTERM), (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM), (signal.SIGTERM, signal.SIGHUP)],
)
def test_what_closes_is_not_interrupted_by_more_of_one_order(monkeypatch, numbers):
    monkeypatch.setattr(ending_signals.time, "monotonic", lambda: 100.0)
    closed = []

    def close():
        for number in numbers[1:]:
            signal.raise_signal(number)
        closed.append(True)

    with pytest.raises(EndedBySignal) as caught, signals_raising(), contextlib.ExitStack() as stack:
        stack.callback(close)
        signal.raise_signal(numbers[0])
    assert caught.value.number == numbers[0]
    assert closed == [True]


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize(("later", "raises"), [(signal.SIGTERM, True), (signal.SIGHUP, False)])
def test_another_order_after_a_while_interrupts_what_closes_but_no_hangup(monkeypatch, later, raises):
    with signals_raising():
        with pytest.raises(EndedBySignal):
            signal.raise_signal(signal.SIGHUP)
        monkeypatch.setattr(ending_signals, "SAME_SIGNAL_S", -1.0)
        with pytest.raises(EndedBySignal) if raises else contextlib.nullcontext():
            signal.raise_signal(later)


@pytest.mark.usefixtures("default_signals")
def test_signals_that_are_ignored_or_handled_stay_so():
    seen = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: seen.append(True))
    with signals_raising():
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
    assert seen == [True]


@pytest.mark.usefixtures("default_signals")
def test_a_process_that_was_forked_where_signals_raise_dies_of_them():
    """Vectors of environments fork, and end their processes by SIGTERM."""
    with signals_raising():
        if not (pid := os.fork()):
            signal.raise_signal(signal.SIGTERM)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM


IN_A_COPY = """
import os, signal, time
from sample_profiler.runtime.signals.ending_signals import signals_calling
def fail(*_):
    os._exit(9)
with signals_calling(fail, fail):
    for _ in range(20):
        if (copy := os.fork()) == 0:
            time.sleep(60)
            os._exit(8)
        os.kill(copy, signal.SIGTERM)  # before it has begun
        assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == -signal.SIGTERM
    ready, told = os.pipe()
    if (copy := os.fork()) == 0:
        os.write(told, b".")
        time.sleep(60)
        os._exit(8)
    os.read(ready, 1)
    os.kill(copy, signal.SIGINT)
    time.sleep(0.2)
    assert os.waitpid(copy, os.WNOHANG)[0] == 0, "Ctrl+C is left to the original"
    os.kill(copy, signal.SIGTERM)
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) != -signal.SIGTERM)
"""


def test_a_copy_of_the_process_dies_of_the_signals_that_end_a_run():
    assert subprocess.run([sys.executable, "-c", IN_A_COPY], timeout=60, check=False).returncode == 0


def test_who_has_ignored_the_ends_of_children_is_told_of_them_again(caplog):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with caplog.at_level(logging.INFO):
            assert [take_notice_of_children(), take_notice_of_children()] == [True, False]
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
        assert len(caplog.messages) == 1
        signal.signal(signal.SIGCHLD, handler := lambda *_: None)
        take_notice_of_children()
        assert signal.getsignal(signal.SIGCHLD) is handler, "whoever handles them goes on to"
    finally:
        signal.signal(signal.SIGCHLD, before)


FORKS = """
import os, signal, time
# Before ours, so that it is called after it.
os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGTERM))
from sample_profiler.runtime.signals.ending_signals import EndedBySignal, signals_raising
try:
    with signals_raising():
        if (copy := os.fork()) == 0:
            os._exit(0)
        time.sleep(5)
    raise SystemExit("a signal that came while a copy was made is lost")
except EndedBySignal:
    pass
"""


def test_a_signal_that_comes_while_a_copy_is_made_is_not_lost():
    ended = subprocess.run([sys.executable, "-c", FORKS], timeout=60, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


IN_A_CHILD = """
import os, signal, subprocess
from sample_profiler.runtime.signals.ending_signals import prepare_for_signals
prepare_for_signals()
os.kill(os.getpid(), signal.SIGINT)
for options in ({}, {"preexec_fn": os.getpid}):
    with subprocess.Popen(["sleep", "60"], **options) as simulator:
        simulator.send_signal(signal.SIGINT)
        assert simulator.wait(timeout=10) == -signal.SIGINT
"""


def test_a_child_goes_on_at_ctrl_c_and_what_it_starts_ends_by_it():
    assert subprocess.run([sys.executable, "-c", IN_A_CHILD], timeout=60, check=False).returncode == 0
