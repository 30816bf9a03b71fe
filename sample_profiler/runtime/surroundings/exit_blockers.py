"""Owns what somebody else's code leaves behind in a process that goes on: what Python's exit would wait for.

A serial run has its environments in the caller's process. Threads that are no daemons, processes and functions to be
called at exit that they leave there would keep the command from ending after its last line.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import logging
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Collection, Sequence
from concurrent.futures import thread as executors
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from typing import Any

import psutil

from sample_profiler.runtime.signals.ending_signals import ENDING_SIGNALS

__all__ = ["ExitBlockers"]

logger = logging.getLogger(__name__)

_PATIENCE_S = 1.0
_POLL_S = 0.02
_HELPERS = ("multiprocessing.forkserver", "torch/_inductor")  # of libraries, which end them themselves
_sleep = time.sleep  # whatever is made of that later


class ExitBlockers:
    """What is begun in this process from when this is made on.

    Args:
        limit_s: that Python's exit may take in the end; then it is told where it hangs, and ended.

    Attributes:
        exit_status: of the process, should its exit hang.
    """

    def __init__(self, limit_s: float) -> None:
        self.exit_status = 1
        self._limit_s = limit_s
        self._threads = set(threading.enumerate())
        self._processes = _list_processes()

    def let_go(self) -> None:
        """See to it that Python's exit waits for nothing that was begun meanwhile."""
        self._end_processes()
        self._let_go_of_threads()
        _exit_watch.begun |= set(threading.enumerate()) - self._threads - {threading.current_thread()}
        _exit_watch.register(self._limit_s, self.exit_status)

    def _end_processes(self) -> None:
        """End what was started meanwhile: it would be waited for, or hold the output of this program open."""
        left = _list_processes() - self._processes
        alive = _await_ends(left)
        for process in alive:
            with contextlib.suppress(psutil.Error):
                process.kill()
        _await_ends(alive)
        multiprocessing.active_children()  # takes notice of the ends of its own
        if alive:
            names = ", ".join(str(process.pid) for process in alive)
            logger.warning("The environment, or what it uses, has left processes, which were ended: %s", names)

    def _let_go_of_threads(self) -> None:
        left = [
            thread
            for thread in threading.enumerate()
            # Those of executors are told to end at exit.
            if thread not in self._threads and not thread.daemon and thread not in executors._threads_queues
        ]
        left = _wait_for(left)
        for thread in left:
            _forget(thread)
        _exit_watch.forgotten |= set(left)
        if left:
            logger.warning(
                "The environment, or what it uses, has left threads that are no daemons, which nobody waits for: %s",
                ", ".join(f"{thread.name} (in {_place_of(thread)})" for thread in left),
            )


def _list_processes() -> set[psutil.Process]:
    """Return what this process has started, and what that has, but for helpers of libraries."""
    tracker = getattr(resource_tracker._resource_tracker, "_pid", None)
    found = set()
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                command = " ".join(process.cmdline())
                if process.pid != tracker and not any(helper in command for helper in _HELPERS):
                    found.add(process)
    return found


def _await_ends(processes: Collection[psutil.Process]) -> list[psutil.Process]:
    """Give processes a moment to end, and return those that have not; whoever started them is told how they ended."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while (alive := [each for each in processes if _is_alive(each)]) and time.monotonic() < deadline_s:
        _sleep(_POLL_S)
    return alive


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _wait_for(begun: Sequence[Any]) -> list[Any]:
    """Give threads or processes a moment to end, all of them together, and return those that have not."""
    deadline_s = time.monotonic() + _PATIENCE_S
    for each in begun:
        each.join(max(0.0, deadline_s - time.monotonic()))
    return [each for each in begun if each.is_alive()]


def _forget(thread: threading.Thread) -> None:
    """Have Python's exit not wait for a thread; there is no public way, and from 3.13 on none: see `_ExitWatch`."""
    with contextlib.suppress(AttributeError), threading._shutdown_locks_lock:  # type: ignore[attr-defined]
        threading._shutdown_locks.discard(thread._tstate_lock)  # type: ignore[attr-defined]


def _place_of(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return "native code"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@dataclass
class _ExitWatch:
    """Ends the process if its exit takes too long, or would wait for threads that nobody waits for.

    Attributes:
        limit_s: that it may take, once the program's own threads have ended.
        exit_status: of the process then.
        is_registered: whether Python calls it at exit.
        process: which exit is watched; copies of it have ends of their own.
        begun: threads that were begun by others than the program.
        forgotten: those of them that nobody waits for.
        exit_has_begun: whether Python waits for threads now.
    """

    limit_s: float = math.inf
    exit_status: int = 0
    is_registered: bool = False
    process: int = 0
    begun: set[threading.Thread] = field(default_factory=set)
    forgotten: set[threading.Thread] = field(default_factory=set)
    exit_has_begun: threading.Event = field(default_factory=threading.Event)

    def register(self, limit_s: float, exit_status: int) -> None:
        """Watch the exit, whenever it comes."""
        self.limit_s, self.exit_status, self.process = limit_s, exit_status, os.getpid()
        if not self.is_registered:
            with contextlib.suppress(AttributeError, RuntimeError):  # no public name; or the exit has begun
                # Before threads are waited for, and before functions are called that others have registered.
                threading._register_atexit(self._begin)  # type: ignore[attr-defined]
                # Now: at the exit some versions of Python start no more.
                threading.Thread(target=self._watch, daemon=True, name="exit_watch").start()
                self.is_registered = True

    def _begin(self) -> None:
        if os.getpid() != self.process:  # a simulator, forked: it would wait for what only the original's threads do
            return
        self.exit_has_begun.set()
        self._wait_for_own_threads()  # as Python would do next
        with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):  # there may be no stderr
            # Threads do not run any more while Python takes the last objects apart, and one of them may hang.
            faulthandler.dump_traceback_later(self.limit_s + 1.0, exit=True, file=sys.__stderr__)  # type: ignore[arg-type]
        if sys.version_info >= (3, 13) and any(thread.is_alive() for thread in self.forgotten):
            atexit._run_exitfuncs()
            for stream in filter(None, (sys.stdout, sys.stderr)):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(self.exit_status)  # Python would wait for them

    def _wait_for_own_threads(self) -> None:
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.main_thread() and thread not in self.begun:
                thread.join()

    def _watch(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        self.exit_has_begun.wait()
        self._wait_for_own_threads()
        _sleep(self.limit_s)  # a process whose exit does not hang is gone before this is over
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        stack = "".join(traceback.format_stack(frame)).rstrip() if frame else "native code"
        logger.error("The exit hangs, and is cut off after %g s. It is here:\n%s", self.limit_s, stack)
        logging.shutdown()
        os._exit(self.exit_status)


_exit_watch = _ExitWatch()
