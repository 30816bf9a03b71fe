"""Owns that a process whose native code crashes says where, if nobody else could tell it."""

from __future__ import annotations

import contextlib
import faulthandler
import sys
from collections.abc import Iterator

__all__ = ["crashes_told"]


@contextlib.contextmanager
def crashes_told() -> Iterator[None]:
    """Have standard error get the stacks of this process if it crashes meanwhile, unless the program does so already.

    Processes of components tell it to their parent.
    """
    is_ours = not faulthandler.is_enabled()
    if is_ours:
        with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):  # there may be no stderr
            faulthandler.enable(file=sys.__stderr__)  # type: ignore[arg-type]
    try:
        yield
    finally:
        if is_ours:
            faulthandler.disable()
