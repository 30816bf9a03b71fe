"""Owns what somebody else's code leaves behind in a process that goes on: what Python's exit would wait for.

A serial run has its environments in the caller's process. Threads that are no daemons, processes and functions to be
called at exit that they leave there would keep the command from ending after its last line.
"""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import thread as executors
from dataclasses import dataclass
from typing import Any

__all__ = ["LeftBehind"]

logger = logging.getLogger(__name__)

_PATIENCE_S = 1.0


class LeftBehind:
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
        self._processes = set(multiprocessing.active_children())

    def let_go(self) -> None:
        """See to it that Python's exit waits for nothing that was begun meanwhile."""
        self._end_processes()
        self._let_go_of_threads()
        _exit_watch.register(self._limit_s, self.exit_status)

    def _end_processes(self) -> None:
        left = [
            child for child in multiprocessing.active_children() if child not in self._processes and not child.daemon
        ]
        left = _wait_for(left)
        for child in left:
            child.kill()
            child.join(_PATIENCE_S)
        if left:
            names = ", ".join(f"{child.name} ({child.pid})" for child in left)
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
        if left:
            logger.warning(
                "The environment, or what it uses, has left threads that are no daemons, which nobody waits for: %s",
                ", ".join(f"{thread.name} (in {_place_of(thread)})" for thread in left),
            )


def _wait_for(begun: Sequence[Any]) -> list[Any]:
    """Give threads or processes a moment to end, all of them together, and return those that have not."""
    deadline_s = time.monotonic() + _PATIENCE_S
    for each in begun:
        each.join(max(0.0, deadline_s - time.monotonic()))
    return [each for each in begun if each.is_alive()]


def _forget(thread: threading.Thread) -> None:
    """Have Python's exit not wait for a thread; there is no public way."""
    with contextlib.suppress(AttributeError):  # of another version of Python: its exit is watched all the same
        if sys.version_info >= (3, 13):
            thread._handle._set_done()  # type: ignore[attr-defined]
        else:
            with threading._shutdown_locks_lock:  # type: ignore[attr-defined]
                threading._shutdown_locks.discard(thread._tstate_lock)  # type: ignore[attr-defined]


def _place_of(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return "native code"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@dataclass
class _ExitWatch:
    """Ends the process if its exit takes too long.

    Attributes:
        limit_s: that it may take.
        exit_status: of the process then.
        is_registered: whether Python calls it at exit.
    """

    limit_s: float = math.inf
    exit_status: int = 0
    is_registered: bool = False

    def register(self, limit_s: float, exit_status: int) -> None:
        """Watch the exit, whenever it comes."""
        self.limit_s, self.exit_status = limit_s, exit_status
        if not self.is_registered and not math.isinf(limit_s):
            with contextlib.suppress(AttributeError, RuntimeError):  # no public name; or the exit has begun
                # Before threads are waited for, and before functions are called that others have registered.
                threading._register_atexit(self._begin)  # type: ignore[attr-defined]
                self.is_registered = True

    def _begin(self) -> None:
        threading.Thread(target=self._watch, daemon=True, name="exit_watch").start()

    def _watch(self) -> None:
        time.sleep(self.limit_s)  # a process whose exit does not hang is gone before this is over
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        stack = "".join(traceback.format_stack(frame)).rstrip() if frame else "native code"
        logger.error("The exit hangs, and is cut off after %g s. It is here:\n%s", self.limit_s, stack)
        logging.shutdown()
        os._exit(self.exit_status)


_exit_watch = _ExitWatch()
