"""Owns what happens when a timer rings for which the process has no handler: nothing, where it would have ended it."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["alarms_survived", "survive_alarms"]

logger = logging.getLogger(__name__)

_DEADLY_TIMERS = {
    signal.SIGALRM: signal.ITIMER_REAL,
    signal.SIGVTALRM: signal.ITIMER_VIRTUAL,
    signal.SIGPROF: signal.ITIMER_PROF,
}


def _ignore_alarm(number: int, _: FrameType | None) -> None:
    name = signal.Signals(number).name
    logger.warning("An alarm (%s) came that nobody handles: it would have ended the process", name)


def survive_alarms() -> list[int]:
    """Let timers whose signal nobody handles end nothing from now on, and return these; who handles them goes on to."""
    is_main = threading.current_thread() is threading.main_thread()
    taken = [number for number in _DEADLY_TIMERS if is_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _ignore_alarm)
        signal.siginterrupt(number, False)
    return [int(number) for number in taken]


@contextlib.contextmanager
def alarms_survived() -> Iterator[None]:
    """Do what `survive_alarms` does for a while; a timer that was set meanwhile ends with it, as it ends nothing."""
    taken = survive_alarms()
    ours = [number for number in taken if not any(signal.getitimer(_DEADLY_TIMERS[signal.Signals(number)]))]
    try:
        yield
    finally:
        for number in taken:
            if signal.getsignal(number) is _ignore_alarm:
                if number in ours:
                    signal.setitimer(_DEADLY_TIMERS[signal.Signals(number)], 0)
                signal.signal(number, signal.SIG_DFL)
