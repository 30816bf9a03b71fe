"""What counters and gauges of a run stood at over its time, as its session has them: the figures of any part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sample_profiler.profiling.session.session import Session

__all__ = ["MACHINE", "BlockReadings", "Column", "Readings", "read_readings"]

MACHINE = ""
"""Whose the gauges of the whole run are, such as the frames trained on."""

Column = npt.NDArray[np.float64]
"""`[num_readings]`: NaN where it was not known."""

_FEWEST = 2
_MOST_READINGS = 100_000


@dataclass(frozen=True)
class BlockReadings:
    """A block over time.

    Attributes:
        seconds: that its passes have taken since the component began.
        passes: so far.
    """

    seconds: Column
    passes: Column


@dataclass(frozen=True)
class Readings:
    """The readings of a run.

    Attributes:
        times_s: `[num_readings]`, rising: seconds since the run began.
        gauges: by owner, which is a process, a component or `MACHINE`, and by name.
        blocks: by component, and by path below its `main_loop`; waits, too.
    """

    times_s: Column
    gauges: Mapping[str, Mapping[str, Column]] = field(default_factory=dict)
    blocks: Mapping[str, Mapping[str, BlockReadings]] = field(default_factory=dict)

    def value(self, column: Column, time_s: float) -> float:
        """Return what a column stood at; between two readings on the line through them; NaN: it is not known."""
        known = np.isfinite(column)
        times_s = self.times_s[known]
        if not len(times_s) or not times_s[0] <= time_s <= times_s[-1]:
            return float("nan")
        return float(np.interp(time_s, times_s, column[known]))

    def rise(self, column: Column, begin_s: float, end_s: float) -> float:
        """Return by how much a column rose in a part of the run; NaN: it is not known."""
        return self.value(column, end_s) - self.value(column, begin_s)

    def rate(self, column: Column, begin_s: float, end_s: float) -> float:
        """Return by how much a column rose each second in a part of the run; NaN: it is not known."""
        return self.rise(column, begin_s, end_s) / (end_s - begin_s)

    def gauge(self, owner: str, name: str) -> Column | None:
        """Return a gauge over time; None: there is none."""
        return self.gauges.get(owner, {}).get(name)


def read_readings(session: Session) -> Readings | None:
    """Return the readings of a session; None: it has none, or what is in their place is something else."""
    document = session.run.get("readings")
    if not isinstance(document, dict):
        return None
    try:
        return _read(document)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):  # of somebody else's session
        return None


def _read(document: Mapping[str, Any]) -> Readings | None:
    times_s = np.array(document["times_s"], dtype=np.float64)
    if times_s.ndim != 1 or not _FEWEST <= len(times_s) <= _MOST_READINGS:
        return None
    if not np.isfinite(times_s).all() or not (np.diff(times_s) > 0).all():
        return None

    def column(values: Any) -> Column:
        found: Column = np.array(values, dtype=np.float64)
        if found.shape != times_s.shape:
            raise ValueError(f"a column has the shape {found.shape}")
        return np.where(np.isfinite(found), found, np.nan)

    gauges = {
        str(owner): {str(name): column(values) for name, values in each.items()}
        for owner, each in document["gauges"].items()
    }
    blocks = {
        str(component): {
            str(path): BlockReadings(column(block["seconds"]), column(block["passes"])) for path, block in each.items()
        }
        for component, each in document["blocks"].items()
    }
    return Readings(times_s, gauges, blocks)
