"""Owns what is noticed where somebody else's code has closed a process's pipes, and opened others in their places."""

from __future__ import annotations

import os
import stat

__all__ = ["FILES_CLOSED", "OwnPipes"]

FILES_CLOSED = os.EX_IOERR
"""Exit status of a process whose pipes were closed by somebody else's code in it."""


class OwnPipes:
    """The pipes that a process has when this is made.

    Whoever writes to one that was closed is told so by the kernel. But the next file that is opened gets its number,
    and then messages go to somebody who makes nothing of them, and none come.
    """

    def __init__(self) -> None:
        numbers = map(int, os.listdir("/proc/self/fd"))
        self._identities = {number: known for number in numbers if (known := _identity_of_pipe(number))}

    def are_replaced(self) -> bool:
        """Tell whether something else has the number of one of them by now."""
        return any(_is_another(number, known) for number, known in self._identities.items())


def _identity_of_pipe(number: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISFIFO(status.st_mode) and number > 2 else None


def _is_another(number: int, known: tuple[int, int]) -> bool:
    try:
        os.fstat(number)
    except OSError:  # it is closed, and whoever uses it is told so
        return False
    return _identity_of_pipe(number) != known
