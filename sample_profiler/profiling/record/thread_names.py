"""Numbers for the threads that record: small, never used again, and with the name that the thread had at first."""

from __future__ import annotations

import itertools
import threading

from sample_profiler.profiling.record.format import NUM_THREAD_NAMES

__all__ = ["note_thread", "number_of_thread", "thread_names"]

_names: dict[int, str] = {}
_local = threading.local()
_numbers = itertools.count(1)  # the next one is taken in one piece, without a lock


def number_of_thread() -> int:
    """Return the number of the current thread, from 1 on."""
    try:
        number: int = _local.number
    except AttributeError:
        number = _local.number = next(_numbers)
        note_thread(number)
    return number


def note_thread(number: int) -> None:
    """Keep the name of the current thread, which has this number; of more threads than a file names, of the first."""
    if number <= NUM_THREAD_NAMES:
        _names[number] = threading.current_thread().name


def thread_names() -> dict[int, str]:
    """Return the names of the first threads that have recorded, by number."""
    return _names.copy()
