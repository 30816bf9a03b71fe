"""Owns figures over the time of a run, for its report: of a long run as many as of a short one, further apart."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["History"]

_MOST_POINTS = 600
_DIGITS = 6


class History:
    """Points of several figures.

    Those of a figure are evenly apart as far as its values come evenly, and the latest is always among them.
    """

    def __init__(self) -> None:
        self._series: dict[str, _Series] = {}

    def add(self, time_s: float, figures: Mapping[str, float]) -> None:
        """Note what figures are at a time later than all before, in seconds since the run began."""
        for name, value in figures.items():
            self._series.setdefault(name, _Series()).add(round(time_s, 1), float(f"{value:.{_DIGITS}g}"))

    def points(self) -> dict[str, list[tuple[float, float]]]:
        """Return pairs of seconds and value, by figure."""
        return {name: series.points for name, series in self._series.items()}


class _Series:
    """The points of one figure: every so many-th of its values, and the latest one."""

    def __init__(self) -> None:
        self.points: list[tuple[float, float]] = []
        self._spacing = 1
        self._num_values = 0

    def add(self, time_s: float, value: float) -> None:
        if self._num_values and (self._num_values - 1) % self._spacing:
            self.points.pop()  # it was there as the latest
        self.points.append((time_s, value))
        self._num_values += 1
        if len(self.points) > _MOST_POINTS:
            del self.points[1::2]
            self._spacing *= 2
