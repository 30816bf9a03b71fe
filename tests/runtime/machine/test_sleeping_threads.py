"""What another process sleeps for, of processes that do."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sample_profiler.runtime.machine import sleeping_threads
from sample_profiler.runtime.machine.sleeping_threads import find_sleep

_LOCAL = "import socket; mine, theirs = socket.socketpair(); "
_TCP = (
    "import socket; server = socket.create_server(('127.0.0.1', 0)); "
    "mine = socket.create_connection(server.getsockname()); "
)
_PIPE = "import os; reading, writing = os.pipe(); "


@contextmanager
def python(code: str) -> Iterator[int]:
    """Run an interpreter until it sleeps in what follows the line that it prints."""
    program = code.replace("NOW", "print(flush=True)")
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def look_until(pid: int, sleep: str) -> str | None:
    """Return what a process sleeps for once it is what is expected, or after a while: on its way it may be else."""
    for _ in range(500):
        if (seen := find_sleep(pid)) == sleep:
            break
        time.sleep(0.01)
    return seen


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="told by Linux alone")
@pytest.mark.parametrize(
    ("code", "sleep"),
    [
        ("import time; NOW; time.sleep(60)", "timer"),
        ("import select; NOW; select.select([], [], [], 60)", "timer"),
        ("import threading; NOW; threading.Event().wait()", "lock"),
        (f"{_PIPE} NOW; os.read(reading, 1)", "process"),
        (f"{_LOCAL} NOW; mine.recv(1)", "process"),
        ("import subprocess; NOW; subprocess.run(['sleep', '3'])", "process"),
        (f"{_LOCAL} mine.settimeout(60); NOW; mine.recv(1)", "process"),
        ("import multiprocessing; mine, theirs = multiprocessing.Pipe(); NOW; mine.poll(60)", "process"),
        (
            "import fcntl, tempfile; theirs = tempfile.NamedTemporaryFile(); fcntl.flock(theirs, fcntl.LOCK_EX); "
            "mine = open(theirs.name); NOW; fcntl.flock(mine, fcntl.LOCK_EX)",
            "lock",
        ),
        (f"{_TCP} NOW; mine.recv(1)", "network"),
        (f"{_TCP} mine.settimeout(60); NOW; mine.recv(1)", "network"),
        (f"{_TCP} import select; NOW; select.select([mine], [], [], 60)", "network"),
        (
            f"{_PIPE} import select; p = select.poll(); p.register(reading); p.register(os.pipe()[0]); NOW; p.poll()",
            "run",
        ),
    ],
)
def test_a_process_is_seen_to_sleep_for_what_it_does(code, sleep):
    with python(code) as pid:
        if find_sleep(pid) is None:
            pytest.skip("this system does not show what a child sleeps in")
        assert look_until(pid, sleep) == sleep


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="told by Linux alone")
def test_one_that_computes_sleeps_for_nothing():
    with python("NOW\nwhile True: pass") as pid:
        assert find_sleep(pid) in ("none", None)


@pytest.mark.parametrize(
    ("text", "sleep"),
    [
        (b"running\n", "none"),
        (b"-1 0x7ffee6374810 0x7f610beed503\n", "memory"),
        (b"-1 0x0 0x0\n", None),
        (b"74 0x3 0x0 0x0 0x0 0x0 0x0 0x7ffee63747f8 0x7f610beed503\n", "disk"),
        (b"72 0x3 0x7 0x7ffee6374810 0x0 0x0 0x0 0x7ffee63747f8 0x7f610beed503\n", "lock"),
        (b"999 0x3 0x0 0x0 0x0 0x0 0x0 0x7ffee63747f8 0x7f610beed503\n", "other"),
        (b"", None),
    ],
)
def test_what_the_kernel_writes_is_understood(monkeypatch, tmp_path, text, sleep):
    path = tmp_path / "syscall"
    path.write_bytes(text)
    calls = {call: wait for wait, calls in sleeping_threads._CALLS["x86_64"].items() for call in calls}
    monkeypatch.setattr(sleeping_threads, "_WAITS_OF_CALL", calls)
    monkeypatch.setattr(sleeping_threads, "open", lambda *_, **options: path.open("rb", **options), raising=False)
    assert find_sleep(1) == sleep


def test_a_process_that_is_gone_is_not_told_of():
    assert find_sleep(2**22 + 1) is None


def test_on_another_kind_of_machine_nothing_is_told(monkeypatch):
    monkeypatch.setattr(sleeping_threads, "_WAITS_OF_CALL", {})
    assert find_sleep(1) is None


@pytest.mark.parametrize("calls", sleeping_threads._CALLS.values())
def test_no_call_waits_for_two_things(calls):
    listed = [call for each in calls.values() for call in each]
    assert len(listed) == len(set(listed))
