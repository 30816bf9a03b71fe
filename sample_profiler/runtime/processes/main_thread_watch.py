"""Owns how a thread that hangs is noticed, named and freed, where no other process looks after it.

For the only process of a serial run, and for the Runner's, whose observers may hang.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import logging
import math
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

from sample_profiler.runtime.messages.channels import LocalReports
from sample_profiler.runtime.messages.heartbeats import SAVE_S, Heartbeat
from sample_profiler.runtime.processes.child import end_stuck_process
from sample_profiler.runtime.processes.failure import HangError
from sample_profiler.runtime.processes.orphans import list_shared_memory
from sample_profiler.runtime.signals.ending_signals import ENDING_SIGNALS

__all__ = ["MainThreadWatch", "WatchedReports"]

logger = logging.getLogger(__name__)

_LOOK_INTERVAL_S = 0.5
_FREE_S = 4.0  # that the thread has to come out of where it hangs, once it was interrupted
_MOST_INTERRUPTS = 2  # whatever it hangs in may catch them, and try again
_NATIVE_S = 30.0  # beyond the limit, after which native code that does not let go of the interpreter is told
_DEBUGGERS = ("bdb", "pdb", "code", "debugpy", "pydevd", "_pydevd_bundle", "IPython")
_WAKE_SIGNAL = signal.SIGRTMAX - 2  # hardly anybody uses it


class MainThreadWatch:
    """Watches the thread that enters it, as a context: it has to give signs of life.

    Where there are none for too long, the place is logged, with the stack, and `HangError` is raised there, also out of
    sleeping and waiting. If it does not come out of foreign code, the process is ended with exit status 1. Another
    thread than the main one is not reached while it sleeps or waits, and its process not ended for it: it is named.
    Whoever sits at the prompt of a debugger has all the time in the world.

    Args:
        limit_s: without a sign of life, after which the thread hangs; more where more patience was asked for.
        locate: says in which block the thread is, or nothing.
    """

    def __init__(self, limit_s: float, locate: Callable[[], str] = lambda: "") -> None:
        self.locate = locate
        self._limit_s = limit_s
        self._patience_s = 0.0
        self._silent_s = 0.0  # counted in looks: the time while the whole process is suspended is no silence
        self._num_interrupts = 0  # since the last sign of life
        self._place = ""
        self._error: HangError | None = None
        self._is_over = threading.Event()
        self._thread_id = 0
        self._is_main = False
        self._existed_before = frozenset[str]()

    def __enter__(self) -> MainThreadWatch:
        """Watch this thread from now on."""
        self._thread_id = threading.get_ident()
        self._is_main = threading.current_thread() is threading.main_thread()
        self._existed_before = list_shared_memory()
        if self._is_main:
            self._previous = signal.signal(_WAKE_SIGNAL, self._on_wake)
        self._is_over.clear()
        self.beat()
        self._arm_native(self._limit_s)
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="main_watch")
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Watch no more."""
        self._is_over.set()
        self._watcher.join()
        if self._is_main:
            signal.signal(_WAKE_SIGNAL, self._previous)

    def beat(self, patience_s: float = 0.0) -> None:
        """Give a sign of life.

        Args:
            patience_s: that is to be had until the next one, if more than usual: something long begins.
        """
        self._patience_s = patience_s
        self._silent_s = 0.0
        self._num_interrupts = 0
        self._error = None  # the thread has come out by itself just now

    def enter(self, place: str) -> None:
        """Give a sign of life, and say where the thread is from now on: a method that may hang; empty: nowhere."""
        self._place = place
        self.beat()

    @contextlib.contextmanager
    def patient(self) -> Iterator[None]:
        """Have patience meanwhile: a file system may have to be waited for."""
        self.beat(SAVE_S)
        try:
            yield
        finally:
            self.beat()

    def _watch(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)  # where the main thread holds them, nobody takes them
        interrupted_s = math.inf
        while not self._is_over.wait(_LOOK_INTERVAL_S):
            self._silent_s += _LOOK_INTERVAL_S
            limit_s = max(self._limit_s, self._patience_s)
            self._arm_native(limit_s)
            if self._silent_s < limit_s:
                interrupted_s = math.inf
            elif self._is_debugged():
                self._silent_s = 0.0
            elif self._silent_s >= interrupted_s + _FREE_S or self._num_interrupts >= _MOST_INTERRUPTS:
                self._give_up()
            elif interrupted_s == math.inf:
                interrupted_s = self._silent_s
                self._num_interrupts += 1
                self._interrupt()
        faulthandler.cancel_dump_traceback_later()

    def _arm_native(self, limit_s: float) -> None:
        """Have native code that does not even let this thread run be told by the system's own timer.

        It does not end the process: that timer goes on while the process is suspended, and is due when it goes on.
        """
        stream = sys.__stderr__
        with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):  # there may be no stderr
            faulthandler.dump_traceback_later(limit_s + _NATIVE_S, file=stream)  # type: ignore[arg-type]

    def _describe(self) -> str:
        place = self._place or self.locate() or "the main thread"
        return f"{place} hangs: there was no sign of life for {self._silent_s:.0f} s (--hang_timeout)"

    def _interrupt(self) -> None:
        frame = sys._current_frames().get(self._thread_id)
        stack = "".join(traceback.format_stack(frame)) if frame else ""
        logger.error("%s\nIt is here:\n%s", self._describe(), stack.rstrip())
        self._error = HangError(self._describe())
        if self._is_main:
            signal.pthread_kill(self._thread_id, _WAKE_SIGNAL)
        else:  # when it is at work in Python next
            raised = ctypes.c_ulong(self._thread_id), ctypes.py_object(HangError)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(*raised)

    def _give_up(self) -> None:
        if self._is_main:
            end_stuck_process(f"{self._describe()}, cannot be interrupted, and is ended", self._own_memory())
        self.beat()  # of another thread it is told again

    def _is_debugged(self) -> bool:
        frame = sys._current_frames().get(self._thread_id)
        while frame is not None:
            if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _DEBUGGERS and frame.f_back is not None:
                return True
            frame = frame.f_back
        return False

    def _on_wake(self, _: int, __: FrameType | None) -> None:
        error, self._error = self._error, None
        if error is not None:
            self._silent_s = 0.0
            raise error

    def _own_memory(self) -> frozenset[str]:
        return list_shared_memory() - self._existed_before


class WatchedReports(LocalReports):
    """A report queue within one process, in which signs of life reach the watch at once.

    Args:
        watch: of the thread in which all components are.
    """

    def __init__(self, watch: MainThreadWatch) -> None:
        super().__init__()
        self._watch = watch

    def send(self, report: object) -> None:
        """Append one report."""
        if isinstance(report, Heartbeat):
            self._watch.beat(report.patience_s)
        super().send(report)
