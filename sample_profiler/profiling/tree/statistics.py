"""What a tree node keeps about its passes: counts, extremes and a histogram, all in integer nanoseconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_SUB_BUCKET_BITS = 4
_NUM_EXACT = 2 << _SUB_BUCKET_BITS
_MOST_BUCKETS = 1024  # that durations of 64 bits are in
NS_PER_S = 1_000_000_000


def bucket_index(duration_ns: int) -> int:
    """Return the histogram bucket of a duration.

    Every power of two is cut into 16 equal buckets, so the middle of a bucket is within 1/32 of every value in it:
    quantiles are good to 3.2 %, whatever the unit or the range, and two histograms merge by adding. Durations below
    32 ns have a bucket each.
    """
    shift = duration_ns.bit_length() - _SUB_BUCKET_BITS - 1
    return duration_ns if shift <= 0 else (shift << _SUB_BUCKET_BITS) + (duration_ns >> shift)


def bucket_bounds_ns(index: int) -> tuple[int, int]:
    """Return the lowest duration of a bucket and the lowest of the next one."""
    if index < _NUM_EXACT:
        return index, index + 1
    shift = (index >> _SUB_BUCKET_BITS) - 1
    mantissa = index - (shift << _SUB_BUCKET_BITS)
    return mantissa << shift, (mantissa + 1) << shift


@lru_cache(_MOST_BUCKETS)
def _middle_ns(index: int) -> float:
    """Return the duration in the middle of a bucket."""
    low, high = bucket_bounds_ns(index)
    return (low + high - 1) / 2


@dataclass
class DeviceStatistics:
    """How long an accelerator worked on what the passes of one node gave it.

    Attributes:
        count: Number of passes that the device has done.
        total_ns: Their sum on the device's own line.
        num_unresolved: Passes whose device time is not known.
    """

    count: int = 0
    total_ns: int = 0
    num_unresolved: int = 0

    def merge(self, other: DeviceStatistics) -> None:
        """Add what was measured of the same node elsewhere."""
        self.count += other.count
        self.total_ns += other.total_ns
        self.num_unresolved += other.num_unresolved

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data; seconds."""
        return {"count": self.count, "total": self.total_ns / NS_PER_S, "unresolved": self.num_unresolved}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> DeviceStatistics:
        """Return what `to_dict` described.

        Raises:
            KeyError: A field is missing.
            TypeError: A field is of another type.
            ValueError: A field is not a number.
        """
        return cls(int(plain["count"]), _to_ns((plain["total"],))[0], int(plain["unresolved"]))


class Statistics:
    """Count, total, extremes, last, latest window and histogram of the durations of one node.

    All durations are integer nanoseconds; only `to_dict` turns them into seconds.

    Attributes:
        count: Number of passes.
        total_ns: Their sum.
        min_ns: The shortest, 0 while there is none.
        max_ns: The longest.
        last_ns: The pass that ended last.
        last_end_ns: When that one ended, on the recorder's clock; 0 if that is not known.
        recent_ns: The latest passes of a ``time_avg`` node, oldest first; empty for other kinds.
        histogram: Number of passes by `bucket_index`.
    """

    __slots__ = ("count", "histogram", "last_end_ns", "last_ns", "max_ns", "min_ns", "recent_ns", "total_ns")

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0
        self.min_ns = 0
        self.max_ns = 0
        self.last_ns = 0
        self.last_end_ns = 0
        self.recent_ns: list[int] = []
        self.histogram: dict[int, int] = {}

    def copy(self) -> Statistics:
        """Return an independent copy."""
        new = Statistics()
        for field in self.__slots__:
            setattr(new, field, getattr(self, field))
        new.recent_ns, new.histogram = self.recent_ns.copy(), self.histogram.copy()
        return new

    def add(self, durations_ns: Sequence[int], last_end_ns: int = 0, window: int | None = None) -> None:
        """Add finished passes.

        Args:
            durations_ns: Durations, in the order in which the passes ended.
            last_end_ns: When the last of them ended.
            window: How many of the latest durations to keep in `recent_ns`; None keeps none.
        """
        if not durations_ns:
            return
        shortest = min(durations_ns)
        self.min_ns = min(self.min_ns, shortest) if self.count else shortest
        self.max_ns = max(self.max_ns, max(durations_ns))
        self.count += len(durations_ns)
        self.total_ns += sum(durations_ns)
        self.last_ns = durations_ns[-1]
        self.last_end_ns = last_end_ns
        if window is not None:
            self.recent_ns = [*self.recent_ns, *durations_ns][-window:]
        self._count_in_histogram(durations_ns)

    def merge(self, other: Statistics) -> None:
        """Add what another recorder, thread or process saw of the same node; `other` stays as it is.

        The last pass is the one that ended later, or the other's if that is not known. The windows are joined, so
        that the mean is over the latest passes of both.
        """
        if not other.count:
            return
        self.min_ns = min(self.min_ns, other.min_ns) if self.count else other.min_ns
        self.max_ns = max(self.max_ns, other.max_ns)
        self.count += other.count
        self.total_ns += other.total_ns
        if other.last_end_ns >= self.last_end_ns or not other.last_end_ns:
            self.last_ns, self.last_end_ns = other.last_ns, other.last_end_ns
        self.recent_ns = [*self.recent_ns, *other.recent_ns]
        for index, count in other.histogram.items():
            self.histogram[index] = self.histogram.get(index, 0) + count

    def quantile_ns(self, fraction: float) -> int:
        """Return the duration below or at which `fraction` (0 to 1) of the passes lie, within 3.2 %; 0 without passes.

        This is the nearest-rank quantile: no value between two passes is made up.
        """
        rank = max(1, math.ceil(fraction * self.count))
        seen = 0
        for index in sorted(self.histogram):
            seen += self.histogram[index]
            if seen >= rank:
                low, high = bucket_bounds_ns(index)
                return min(max((low + high - 1) // 2, self.min_ns), self.max_ns)
        return self.max_ns

    def share_of_slowest(self, fraction: float) -> float:
        """Return which share of the time of all passes the slowest take, so many (0 to 1) of them; 0 without passes.

        A pass is as long as the middle of its bucket, within 3.2 %; passes that are all alike take `fraction`.
        """
        total_ns = sum(count * _middle_ns(index) for index, count in self.histogram.items())
        left, slowest_ns = fraction * self.count, 0.0
        for index in sorted(self.histogram, reverse=True):
            taken = min(left, self.histogram[index])
            slowest_ns, left = slowest_ns + taken * _middle_ns(index), left - taken
            if not left:
                break
        return slowest_ns / total_ns if total_ns else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain, JSON-ready data: seconds, and the histogram by the lowest nanosecond of each bucket."""
        plain: dict[str, Any] = {
            "count": self.count,
            "total": self.total_ns / NS_PER_S,
            "min": self.min_ns / NS_PER_S,
            "max": self.max_ns / NS_PER_S,
            "last": self.last_ns / NS_PER_S,
        }
        if self.recent_ns:
            plain["recent"] = [duration / NS_PER_S for duration in self.recent_ns]
        plain["histogram"] = {
            str(bucket_bounds_ns(index)[0]): self.histogram[index] for index in sorted(self.histogram)
        }
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Statistics:
        """Return the statistics that `to_dict` described.

        Raises:
            KeyError: A field is missing.
            TypeError: A field is of another type.
            ValueError: A field is not a number.
        """
        new = cls()
        new.count = int(plain["count"])
        new.total_ns, new.min_ns, new.max_ns, new.last_ns = _to_ns(
            plain[field] for field in ("total", "min", "max", "last")
        )
        new.recent_ns = _to_ns(plain.get("recent", ()))
        new.histogram = {bucket_index(int(low)): int(count) for low, count in plain.get("histogram", {}).items()}
        return new

    def _count_in_histogram(self, durations_ns: Iterable[int]) -> None:
        histogram = self.histogram
        for duration in durations_ns:
            shift = duration.bit_length() - _SUB_BUCKET_BITS - 1  # bucket_index() without the call: half the cost
            index = duration if shift <= 0 else (shift << _SUB_BUCKET_BITS) + (duration >> shift)
            histogram[index] = histogram.get(index, 0) + 1


def _to_ns(seconds: Iterable[float]) -> list[int]:
    return [round(float(value) * NS_PER_S) for value in seconds]  # a list times so much would fill the memory
