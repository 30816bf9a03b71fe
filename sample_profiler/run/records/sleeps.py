"""Owns what the Runner has seen components sleep for: how a run's waits within work are told apart."""

from __future__ import annotations

from collections import deque

from sample_profiler.component_id import SLEEPERS, ComponentId
from sample_profiler.runtime.machine.sleeping_threads import find_sleep
from sample_profiler.vocabulary import LOOKS, SLEEPS, sleep_counter

__all__ = ["SLEEP_INTERVAL_S", "SleepCounts"]

SLEEP_INTERVAL_S = 0.2
_MOST_LOOKS = 16  # at once: a look takes some 10 µs


class SleepCounts:
    """Looks at processes of a run now and then, all of them equally often, and counts what they sleep for.

    Figures are added up for all components of a kind: how long each of them sleeps, its own counters tell.
    """

    def __init__(self) -> None:
        self._processes: deque[tuple[str, int, str]] = deque()
        self._counts = {sleep_counter(kind, what): 0 for kind in SLEEPERS for what in (LOOKS, *SLEEPS)}
        self._is_told = False

    def watch(self, name: str, pid: int) -> None:
        """Look at a process from now on, and not any more at one that had this name."""
        self._processes = deque(process for process in self._processes if process[0] != name)
        kind = ComponentId.parse(name).kind
        if kind in SLEEPERS:
            self._processes.append((name, pid, kind))

    def look(self) -> None:
        """Look at some of the processes, those first that have not been looked at for longest."""
        for _, pid, kind in [self._processes[index] for index in range(min(_MOST_LOOKS, len(self._processes)))]:
            self._processes.rotate(-1)
            sleep = find_sleep(pid)
            if sleep is None:
                continue
            self._is_told = True
            self._counts[sleep_counter(kind, LOOKS)] += 1
            if sleep in SLEEPS:
                self._counts[sleep_counter(kind, sleep)] += 1

    def gauges(self) -> dict[str, float]:
        """Return what was counted so far, by `sleep_counter`; nothing where the system tells nothing."""
        return {name: float(count) for name, count in self._counts.items()} if self._is_told else {}
