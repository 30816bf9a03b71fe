"""Owns what is told of runs whose processes cannot be seen from here: all there is of them is what they write."""

from __future__ import annotations

import math
import time

from sample_profiler.analysis.window import process_identity
from sample_profiler.profiling.record.process_record import SILENT_S
from sample_profiler.profiling.session.session import Session
from sample_profiler.reports.sections.tables import format_duration

__all__ = ["DistantRun", "describe_distance", "describe_hosts", "is_running"]


def is_running(session: Session) -> bool:
    """Return whether a process of the run lives, as far as can be told from here."""
    return any(record.seems_alive for record in session.processes)


def describe_hosts(session: Session) -> str:
    """Return where the processes are that cannot be seen from here, as in "host node7"; empty if there are none."""
    hosts = dict.fromkeys(record.host for record in session.processes if record.silent_s is not None)
    return f"host {' and '.join(host or 'of no name' for host in hosts)}" if hosts else ""


def describe_distance(session: Session) -> str:
    """Return where these processes are, and when anything last came from them; empty if there are none."""
    hosts = describe_hosts(session)
    silent_s = min((record.silent_s for record in session.processes if record.silent_s is not None), default=0.0)
    return hosts and f"on {hosts}; updated {format_duration(silent_s)} ago"


class DistantRun:
    """Tells whether a run goes on, from one look at its files to the next: whatever the clocks of its machine say."""

    def __init__(self) -> None:
        self._signs: dict[object, int] | None = None
        self._changed_s = -math.inf

    def lives(self, session: Session) -> bool:
        """Return whether a process of the run lives, as far as can be told by now; call it with every look.

        After the first look that is not known of processes that cannot be seen: they count as alive.
        """
        signs: dict[object, int] = {
            process_identity(record): record.read_ns for record in session.processes if record.silent_s is not None
        }
        is_first = self._signs is None
        if not is_first and signs != self._signs:
            self._changed_s = time.monotonic()
        self._signs = signs
        is_written = is_first or time.monotonic() < self._changed_s + SILENT_S
        return is_running(session) or (bool(signs) and is_written)
