"""Owns figures over the time of a run, for its report: of a long run as many as of a short one, further apart."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["Columns", "History", "evaluated", "to_json"]

Columns = Callable[[], Any] | Mapping[str, "Columns"]
"""JSON-ready data in dictionaries, made when it is asked for: all at once takes many times what it is kept as."""

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

    def latest(self, name: str) -> float | None:
        """Return the latest value of a figure; None: there is none."""
        return self._series[name].latest if name in self._series else None

    def points(self) -> dict[str, list[tuple[float, float]]]:
        """Return pairs of seconds and value, by figure."""
        return {name: series.points() for name, series in self._series.items()}

    def columns(self) -> Columns:
        """Return the same, made when it is asked for."""
        return {name: series.points for name, series in self._series.items()}


class _Series:
    """The points of one figure: every so many-th of its values, and the latest one.

    Kept as arrays: as pairs they take seven times the memory, and each holds on to a page of what comes and goes.
    """

    def __init__(self) -> None:
        self._times_s = array("d")
        self._values = array("d")
        self._spacing = 1
        self._num_added = 0

    @property
    def latest(self) -> float:
        return self._values[-1]

    def points(self) -> list[tuple[float, float]]:
        return list(zip(self._times_s, self._values, strict=True))

    def add(self, time_s: float, value: float) -> None:
        if self._num_added and (self._num_added - 1) % self._spacing:  # the one before was there as the latest
            self._times_s[-1], self._values[-1] = time_s, value
        else:
            self._times_s.append(time_s)
            self._values.append(value)
        self._num_added += 1
        if len(self._times_s) > _MOST_POINTS:
            del self._times_s[1::2], self._values[1::2]
            self._spacing *= 2


def evaluated(columns: Columns) -> Any:
    """Return all of them as they are asked for."""
    return columns() if callable(columns) else {name: evaluated(each) for name, each in columns.items()}


def to_json(columns: Columns) -> Iterator[str]:
    """Yield them as JSON, one at a time."""
    if callable(columns):
        yield json.dumps(columns(), allow_nan=False)
        return
    before = "{"
    for name, each in columns.items():
        yield f"{before}{json.dumps(name)}: "
        yield from to_json(each)
        before = ",\n"
    yield "}" if columns else "{}"
