"""Owns the exit statuses of commands: what they say to whoever started one."""

from __future__ import annotations

import signal

from sample_profiler.runtime.signals.ending_signals import EndedBySignal

__all__ = ["BAD_USAGE", "FAILED", "TOO_SLOW", "status_of_interrupt", "status_of_signal"]

FAILED = 1
"""Of a run."""

TOO_SLOW = 1
"""Of a comparison that is told what a run may lose."""

BAD_USAGE = 2
"""What is asked for cannot be done, and nothing of it was, or not all; as argparse has it."""

_KILLED_BY_SIGNAL = 128


def status_of_signal(number: int) -> int:
    """Return the exit status of a command that a signal has ended, as a shell has it."""
    return _KILLED_BY_SIGNAL + number


def status_of_interrupt(error: KeyboardInterrupt) -> int:
    """Return the exit status of a command that this has ended: Ctrl+C, unless it says which other signal it was."""
    return status_of_signal(error.number if isinstance(error, EndedBySignal) else signal.SIGINT)
