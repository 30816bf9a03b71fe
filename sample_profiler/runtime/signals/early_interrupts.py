"""Owns Ctrl+C while a program of the package still imports what it needs: there is nothing to end in order yet.

Python would raise in whatever module it is in, and show where that is. This is for programs alone: who imports the
package keeps the signals as they are. So nothing is imported here that takes time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

__all__ = ["end_silently_if_program", "end_silently_when_interrupted", "interrupts_raising"]

_KILLED_BY_SIGNAL = 128


def end_silently_if_program(package: str, *others: str) -> None:
    """Do as `end_silently_when_interrupted` if Python is about to run a module of a package, ``python -m``.

    Args:
        package: that calls this while it is imported.
        others: packages in it whose programs never take Ctrl+C back.
    """
    if getattr(sys, "argv", None) != ["-m", *sys.argv[1:]]:  # as it is only while Python looks for the module
        return
    name = sys.orig_argv[sys.orig_argv.index("-m") + 1] if "-m" in sys.orig_argv[:-1] else ""
    if name.startswith(f"{package}.") and not name.startswith(tuple(f"{other}." for other in others)):
        end_silently_when_interrupted()


def end_silently_when_interrupted() -> None:
    """Let Ctrl+C end this process at once, with exit status 130, wherever it does not raise (`interrupts_raising`).

    Not where it is ignored, or somebody else handles it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


@contextlib.contextmanager
def interrupts_raising() -> Iterator[None]:
    """Let Ctrl+C raise again, as in any program: there is something to end in order; in the main thread."""
    is_ours = signal.getsignal(signal.SIGINT) is _end
    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, _end)


def _end(number: int, _: FrameType | None) -> None:
    os._exit(_KILLED_BY_SIGNAL + number)
