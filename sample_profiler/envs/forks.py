"""Owns the end of copies of this process: an environment may fork, and come back from its method in the copy, too.

Such a copy would go on as the process that it is a copy of, with the same pipes and the same shared memory.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import NoReturn

__all__ = ["GENERATION", "copies_ended", "end_copy"]

GENERATION = [0]
"""How many forks there are between the program and this process, as the only element; a hot path compares it."""


def _note_fork() -> None:
    GENERATION[0] += 1


os.register_at_fork(after_in_child=_note_fork)


def end_copy(error: BaseException | None = None) -> NoReturn:
    """End this process, a copy, without any of what the original will do at its own end.

    Args:
        error: it came out with this; the exit status is that of a `SystemExit`, and 1 for any other.
    """
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    else:
        status = int(error is not None)
    os._exit(status & 0xFF)


@contextlib.contextmanager
def copies_ended() -> Iterator[None]:
    """End a copy of this process that comes out of the block which the original has entered."""
    before = GENERATION[0]
    try:
        yield
    except BaseException as error:
        if GENERATION[0] != before:
            end_copy(error)
        raise
    if GENERATION[0] != before:
        end_copy()
