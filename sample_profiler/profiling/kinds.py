"""The three kinds of block: what the one value of a tree node means."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from sample_profiler.errors import TimingError
from sample_profiler.profiling.statistics import Statistics

DEFAULT_WINDOW = 10


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
