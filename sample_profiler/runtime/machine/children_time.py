"""Owns how much processor time the processes have used that this one has started: games, simulators, their helpers.

Linux only, through /proc, where the kernel lists the children of a thread; elsewhere nothing is known.
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Callable, Iterator

__all__ = ["ChildrenTime", "leave_out", "list_descendants", "take_in"]

_LOOK_INTERVAL_S = 10.0  # looking for new ones takes as many files as they have threads, reading their times one each

_left_out: set[int] = set()


def leave_out(pid: int) -> None:
    """Do not count a process of this one, nor what that starts: it serves no environment."""
    _left_out.add(pid)


def take_in(pid: int) -> None:
    """Count a process of that number again: the one that was left out is waited for, which counts it, too."""
    _left_out.discard(pid)


class ChildrenTime:
    """Counts the processor time of all descendants of this process, those that have ended included.

    Args:
        clock_s: returns seconds that never go back; for tests.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._looked_s = -math.inf
        self._pids: list[int] | None = None
        self._most_s = 0.0

    def seconds(self) -> float | None:
        """Return the seconds so far, which never fall; None: the system does not tell.

        Processes that are new count from ten seconds after their start at the latest, with all that they have used.
        """
        now_s = self._clock_s()
        if now_s - self._looked_s >= _LOOK_INTERVAL_S:
            self._looked_s, self._pids = now_s, list_descendants()
        if self._pids is None:
            return None
        # What has ended is in these figures of whoever waited for it.
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        ticks = sum(map(_ticks_of, self._pids))
        # One that nobody waited for, since its end is ignored, takes its time along.
        self._most_s = max(self._most_s, ended.ru_utime + ended.ru_stime + ticks / self._ticks_per_s)
        return self._most_s


def list_descendants() -> list[int] | None:
    """Return the numbers of all processes below this one that are not left out; None: the system does not tell."""
    try:
        pending = list(_children_of(os.getpid()))
    except OSError:
        return None
    found: list[int] = []
    while pending:
        pid = pending.pop()
        if pid in _left_out:
            continue
        found.append(pid)
        try:
            pending.extend(_children_of(pid))
        except OSError:  # it has ended meanwhile
            continue
    return found


def _children_of(pid: int) -> Iterator[int]:
    # Each thread has those that it has started itself: some games are started by a thread of their own.
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            # Another encoding has to be imported first, which may fail where the current folder is gone.
            with open(f"/proc/{pid}/task/{thread}/children", encoding="utf-8") as file:
                children = file.read().split()
        except (FileNotFoundError, ProcessLookupError):
            if os.path.exists(f"/proc/{pid}/task/{thread}"):
                raise  # the kernel has no such file
            continue  # the thread has ended meanwhile
        yield from map(int, children)


def _ticks_of(pid: int) -> int:
    """Return the processor time of a process and of those of its children that have ended and were waited for."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # Names may have spaces and brackets; behind the last bracket there are numbers alone.
            fields = file.read().rpartition(")")[2].split()
        return sum(map(int, fields[11:15]))
    except (OSError, ValueError):  # it has ended meanwhile
        return 0
