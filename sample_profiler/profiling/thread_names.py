"""Numbers for the threads that record: small, never used again, and with the name that the thread had at first."""

from __future__ import annotations

import threading

__all__ = ["note_thread", "number_of_thread", "thread_names"]

_names: dict[int, str] = {}
_local = threading.local()
_lock = threading.Lock()


def number_of_thread() -> int:
    """Return the number of the current thread, from 1 on."""
    try:
        number: int = _local.number
    except AttributeError:
        with _lock:
            number = _local.number = len(_names) + 1
            note_thread(number)
    return number


def note_thread(number: int) -> None:
    """Keep the name of the current thread, which has this number."""
    _names[number] = threading.current_thread().name


def thread_names() -> dict[int, str]:
    """Return the names of all threads that have recorded, by number."""
    return _names.copy()
