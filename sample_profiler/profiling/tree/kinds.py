"""The three kinds of block: what the one value of a tree node means."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass

from sample_profiler.errors import TimingError
from sample_profiler.profiling.tree.statistics import Statistics

DEFAULT_WINDOW = 10

_LEAST_MOMENT_NS, _LAST_MOMENT_NS = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class Kind:
    """How the passes of one block become its value.

    There is one object per kind and window (see `make_kind`), so kinds are compared with ``is``.

    Attributes:
        method: The method of `Timing` that makes such blocks: ``add_time``, ``timeit`` or ``time_avg``.
        window: How many of the latest passes a ``time_avg`` averages; None for the other two.
    """

    method: str
    window: int | None = None

    def value_ns(self, statistics: Statistics) -> float:
        """Return the value of a node of this kind in nanoseconds: its sum, its last pass, or the mean of its window."""
        if self.method == "timeit":
            return statistics.last_ns
        if self.window is not None:
            return sum(statistics.recent_ns) / max(1, len(statistics.recent_ns))
        return statistics.total_ns

    def latest(self, recent_ns: list[int]) -> list[int]:
        """Return the window of a node of this kind from passes of several, joined."""
        return recent_ns[-(self.window or 1) :]

    def __str__(self) -> str:
        """Return the call that makes such a block, as an error message shows it."""
        return f"{self.method}()" if self.window is None else f"{self.method}(average={self.window})"


ADD_TIME = Kind("add_time")
TIMEIT = Kind("timeit")


@functools.cache
def average_kind(window: int) -> Kind:
    """Return the kind of ``time_avg`` blocks that average `window` passes.

    Raises:
        TimingError: `window` is not a whole number of at least 1.
    """
    if type(window) is not int or window < 1:
        raise TimingError(f"time_avg() averages {window!r} passes; allowed is a whole number of at least 1")
    return Kind("time_avg", window)


def check_kind(key: str, kind: Kind, existing: Kind | None, path: str, window: Kind | None) -> None:
    """Check whether a key may be used as this kind of block.

    Args:
        key: The key.
        kind: What it is to be used as.
        existing: What it is under the same parent; None if it is not there yet.
        path: The keys from the root to it, for the message.
        window: The kind that the key has as a ``time_avg``, anywhere in the tree; None if it is none yet.

    Raises:
        TimingError: The key is no string, or has another kind or window.
    """
    if not isinstance(key, str):
        raise TimingError(f"the key of a block is {key!r}; allowed are strings")
    if existing is not None and existing.method != kind.method:
        raise TimingError(
            f"the block {path!r} is {existing} and is now used as {kind}; "
            f"allowed is one kind for one key under one parent: give the second block a key other than {key!r}"
        )
    if kind.window is not None and window is not None and window is not kind:
        raise TimingError(
            f"the block {key!r} averages {window.window} passes since its first use and is now asked for "
            f"{kind.window}; allowed is one window for a key: leave out `average` or use another key"
        )


def check_pass(key: str, start_ns: int, end_ns: int) -> tuple[int, int]:
    """Return the start and the end of a pass that somebody else has measured, as Python's own integers.

    Raises:
        TimingError: It ends before its start, or one of the two is no whole number of 64 bits.
    """
    start_ns, end_ns = _check_moment(key, start_ns), _check_moment(key, end_ns)
    if end_ns < start_ns:
        raise TimingError(
            f"the pass of {key!r} ends {start_ns - end_ns} ns before its start; allowed is an end after the start"
        )
    return start_ns, end_ns


def _check_moment(key: str, moment_ns: int) -> int:
    try:
        number = operator.index(moment_ns)
    except TypeError:
        number = None
    if number is None or not _LEAST_MOMENT_NS <= number <= _LAST_MOMENT_NS:
        raise TimingError(
            f"a pass of {key!r} starts or ends at {moment_ns!r}; allowed are whole nanoseconds of 64 bits, as "
            "time.perf_counter_ns() returns them"
        )
    return number


def make_kind(method: str, window: int | None) -> Kind:
    """Return the one `Kind` object with these attributes, for reading back plain data.

    Raises:
        TimingError: There is no such kind.
    """
    if method == "time_avg":
        return average_kind(DEFAULT_WINDOW if window is None else window)
    for kind in (ADD_TIME, TIMEIT):
        if kind.method == method:
            return kind
    raise TimingError(f"unknown kind of block {method!r}; allowed are add_time, timeit and time_avg")
