"""Owns what is noticed where somebody else's code has closed a process's pipes, and opened others in their places."""

from __future__ import annotations

import os
import weakref

from sample_profiler.runtime.messages.channels import PipeEnd

__all__ = ["FILES_CLOSED", "OwnPipes"]

FILES_CLOSED = os.EX_IOERR
"""Exit status of a process whose pipes were closed by somebody else's code in it."""


class OwnPipes:
    """The pipes that this process has to others of the run when this is made.

    Whoever writes to one that was closed is told so by the kernel. But the next file that is opened gets its number,
    and then messages go to somebody who makes nothing of them, and none come.
    """

    def __init__(self) -> None:
        self._identities = [(weakref.ref(end), _identity_of(end)) for end in PipeEnd.all_open()]

    def are_replaced(self) -> bool:
        """Tell whether something else has the number of one of them by now."""
        return any((end := known()) is not None and _is_another(end, before) for known, before in self._identities)


def _is_another(end: PipeEnd, before: tuple[int, int] | None) -> bool:
    now = _identity_of(end)
    return now is not None and now != before and end.fileno() >= 0  # else it is closed, and whoever uses it is told so


def _identity_of(end: PipeEnd) -> tuple[int, int] | None:
    """Return what the end leads to; None: it is closed."""
    try:
        status = os.fstat(end.fileno())
    except (OSError, OverflowError):
        return None
    return status.st_dev, status.st_ino
