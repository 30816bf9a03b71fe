"""Gauges: a value that is set again and again, with its extremes."""

from __future__ import annotations

import math
import sys
import time

from sample_profiler.errors import TimingError


class GaugeNode:
    """A value that is set again and again: the latest, the extremes and how often it was set.

    Args:
        value: The first value; not a number (NaN) leaves the gauge without one.

    Attributes:
        value: The latest value; NaN while there is none.
        min_value: The smallest.
        max_value: The largest.
        count: How often it was set.
        updated_ns: When it was set last, nanoseconds of the wall clock: which of two is later also across machines.
    """

    __slots__ = ("count", "max_value", "min_value", "updated_ns", "value")

    def __init__(self, value: float = math.nan) -> None:
        self.value = math.nan
        self.min_value = math.inf
        self.max_value = -math.inf
        self.count = 0
        self.updated_ns = 0
        self.update(value)

    def update(self, value: float) -> None:
        """Set the value; NaN is ignored.

        Raises:
            TimingError: `value` is no number, or none that a float can hold.
        """
        number = gauge_number(value)
        if number == number:
            self.add(number, time.time_ns())

    def add(self, number: float, set_ns: int) -> None:
        """Set the value to one that `gauge_number` returned and that is a number, set at a moment of the wall clock."""
        self.value, self.updated_ns = number, set_ns
        if number < self.min_value:
            self.min_value = number
        if number > self.max_value:
            self.max_value = number
        self.count += 1

    def merge(self, other: GaugeNode) -> None:
        """Add another gauge: the value set later wins, the extremes and counts combine; `other` stays as it is."""
        if not other.count:
            return
        if other.updated_ns >= self.updated_ns:
            self.value, self.updated_ns = other.value, other.updated_ns
        self.min_value = min(self.min_value, other.min_value)
        self.max_value = max(self.max_value, other.max_value)
        self.count += other.count

    def copy(self) -> GaugeNode:
        """Return an independent copy."""
        new = GaugeNode()
        new.merge(self)
        return new

    def to_dict(self) -> dict[str, float]:
        """Return JSON-ready data; JSON knows no infinity, so the largest finite number stands for it."""
        return {
            "value": _to_finite(self.value),
            "min": _to_finite(self.min_value),
            "max": _to_finite(self.max_value),
            "count": self.count,
        }


def gauge_number(value: float) -> float:
    """Return the value that a gauge is set to; NaN is not a number (`value != value`).

    Raises:
        TimingError: `value` is no number, or none that a float can hold.
    """
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TimingError(
            f"the value of a gauge is {value!r}; allowed are numbers: convert it with float() first"
        ) from error
    except OverflowError as error:
        raise TimingError(
            f"the value of a gauge is a number of type {type(value).__name__} that is too large for a float; "
            f"allowed are numbers up to {sys.float_info.max:.2g}: divide it first, or set its logarithm"
        ) from error


def _to_finite(value: float) -> float:
    return max(-sys.float_info.max, min(sys.float_info.max, value))
