"""Owns by how much the clock of another machine differs, from meetings at which each waits for the other.

Nobody leaves a meeting before all have come. So the other one had come before we left, by its clock, which bounds the
difference from above, and we had come before it left, which bounds it from below; the tightest of all meetings count
(Cristian 1989, "Probabilistic clock synchronization", which has round trips instead).
"""

from __future__ import annotations

import math

__all__ = ["ClockBounds"]

_DRIFT = 50e-6  # by which the rates of two clocks differ at most


class ClockBounds:
    """Bounds how far our clock is ahead of another one."""

    def __init__(self) -> None:
        self._low_s, self._high_s = -math.inf, math.inf
        self._came_s = self._left_s = 0.0  # to the latest meeting, and from it

    @property
    def offset_s(self) -> float:
        """What our clock shows less what the other one does; NaN before two meetings."""
        return (self._low_s + self._high_s) / 2

    @property
    def error_s(self) -> float:
        """By how much that may be wrong at most; infinite before two meetings."""
        return (self._high_s - self._low_s) / 2

    def meet(self, came_s: float, left_s: float, other_came_s: float, other_left_before_s: float) -> None:
        """Take a meeting into account.

        Args:
            came_s: when we came, by our clock.
            left_s: when we left it.
            other_came_s: when the other one came, by its own.
            other_left_before_s: when it left the meeting before this one; 0: there was none.
        """
        widened_s = _DRIFT * (left_s - self._left_s)
        if other_left_before_s:
            self._low_s = max(self._low_s, self._came_s - other_left_before_s)
        self._low_s -= widened_s
        self._high_s = min(self._high_s + widened_s, left_s - other_came_s)
        self._came_s, self._left_s = came_s, left_s
