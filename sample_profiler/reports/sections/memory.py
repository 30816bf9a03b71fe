"""The memory of each process of a run over its time: what is its own, what it shares with others, what of a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sample_profiler.analysis.trends.readings import Column, Readings, read_readings
from sample_profiler.profiling.session.session import Session
from sample_profiler.vocabulary import GPU_MEMORY_MIB

__all__ = ["MEMORY_TITLES", "MemoryCourse", "memory_courses", "memory_rows", "memory_to_dicts"]

MEMORY_TITLES = ("process", "own at first", "own at last", "shared at last", "of a GPU at last")
"""Of the columns of `memory_rows`, in MiB; all but the first are numbers."""

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class MemoryCourse:
    """The memory of one process, in MiB at seconds since the run began.

    Attributes:
        process: its name.
        private: what is its own, swapped pages included.
        resident: what is in memory, with what it shares, such as the trajectories.
        gpu: what PyTorch holds of a GPU's; empty: nothing.
    """

    process: str
    private: Points
    resident: Points
    gpu: Points


def memory_courses(session: Session) -> list[MemoryCourse]:
    """Return the memory of each process over time, of that first which has most of its own at the end."""
    readings = read_readings(session)
    found = [] if readings is None else list(_courses(readings))
    return sorted(found, key=lambda course: -course.private[-1][1])


def _courses(readings: Readings) -> Iterator[MemoryCourse]:
    for process, gauges in readings.gauges.items():
        names = "private_memory_mib", "memory_mib", GPU_MEMORY_MIB
        private, resident, gpu = (_points(readings, gauges.get(name)) for name in names)
        if len(private) > 1 and len(resident) > 1:
            yield MemoryCourse(process, private, resident, gpu)


def _points(readings: Readings, column: Column | None) -> Points:
    if column is None:
        return []
    known = np.isfinite(column)
    return list(zip(readings.times_s[known].tolist(), column[known].tolist(), strict=True))


def memory_rows(courses: Sequence[MemoryCourse]) -> list[list[str]]:
    """Return the rows of a table."""
    return [
        [
            course.process,
            f"{course.private[0][1]:,.0f}",
            f"{course.private[-1][1]:,.0f}",
            f"{max(0.0, course.resident[-1][1] - course.private[-1][1]):,.0f}",
            f"{course.gpu[-1][1]:,.0f}" if course.gpu else "",
        ]
        for course in courses
    ]


def memory_to_dicts(courses: Sequence[MemoryCourse]) -> list[dict[str, Any]]:
    """Return JSON-ready data: pairs of seconds and MiB."""
    return [
        {
            "process": course.process,
            "private_mib": [list(point) for point in course.private],
            "resident_mib": [list(point) for point in course.resident],
            "gpu_mib": [list(point) for point in course.gpu],
        }
        for course in courses
    ]
