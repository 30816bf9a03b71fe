"""Owns how a process finds out that it stood still: suspended (SIGSTOP, Ctrl+Z), or with the machine that it is on.

A process that is stopped cannot notice it, and its clocks go on. Afterwards it sees that a thread of its that wakes up
every second did not, and that no other thread has worked meanwhile.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sample_profiler.runtime.signals.ending_signals import ENDING_SIGNALS

__all__ = ["LOOK_INTERVAL_S", "StandstillWatch", "StoodStill", "looking"]

LOOK_INTERVAL_S = 1.0
_LEAST_S = 3.0  # less may be a machine that is busy
_IDLE = 0.1  # cores used meanwhile: more is a process that works, and keeps its other threads from doing so


@dataclass(frozen=True)
class StoodStill:
    """A process did nothing for a while.

    Attributes:
        component: of the process.
        begin_s: on the monotonic clock, which all processes of a machine share; up to a look too late.
        end_s: likewise.
    """

    component: str
    begin_s: float
    end_s: float


class StandstillWatch:
    """Looks at the clock about every `LOOK_INTERVAL_S`, from any thread.

    Args:
        component: of this process.
        clock: monotonic, in seconds; for tests.
        work_clock: seconds that this process has used the processors; for tests.
    """

    def __init__(
        self,
        component: str,
        clock: Callable[[], float] = time.monotonic,
        work_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._component = component
        self._clock = clock
        self._work_clock = work_clock
        self._lock = threading.Lock()
        self._looked_s, self._worked_s = clock(), work_clock()

    def look(self) -> StoodStill | None:
        """Return for how long the process stood still since the last look; None: it did not."""
        with self._lock:
            begin_s, now_s = self._looked_s + LOOK_INTERVAL_S, self._clock()
            worked_before_s, worked_s = self._worked_s, self._work_clock()
            self._looked_s, self._worked_s = now_s, worked_s
        if now_s - begin_s < _LEAST_S or worked_s - worked_before_s > _IDLE * (now_s - begin_s):
            return None
        return StoodStill(self._component, begin_s, now_s)


@contextlib.contextmanager
def looking(look: Callable[[], None]) -> Iterator[None]:
    """Call a function every `LOOK_INTERVAL_S` from a thread of its own meanwhile."""
    is_over = threading.Event()

    def look_on() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)  # where the main thread holds them, nobody takes them
        while not is_over.wait(LOOK_INTERVAL_S):
            look()

    thread = threading.Thread(target=look_on, daemon=True, name="standstill")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
