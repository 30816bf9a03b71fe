"""Counters of a timeline: figures over the time of a run, and what each process's gauges said in the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.reports.sections.history import read_history
from sample_profiler.reports.timeline.tracks import Tracks

__all__ = ["RUN", "Counter", "gauge_events", "run_counters"]

RUN = "Run"
"""The process of the trace that has the counters of the whole run."""


@dataclass(frozen=True)
class Counter:
    """A figure over time.

    Attributes:
        name: of the figure.
        points: moments on the monotonic clock, in order, and values.
    """

    name: str
    points: list[tuple[int, float]]

    def events(self, tracks: Tracks, end_ns: int) -> Iterator[dict[str, Any]]:
        """Yield the points up to a moment, and what it was when the trace begins."""
        for (time_ns, value), (next_ns, _) in zip(self.points, [*self.points[1:], (end_ns, 0.0)], strict=True):
            if time_ns <= end_ns and (time_ns >= tracks.zero_ns or next_ns > tracks.zero_ns):
                yield _counter(self.name, tracks.processes[RUN], tracks.us(time_ns), value)


def run_counters(session: Session) -> list[Counter]:
    """Return the figures over time that a run has noted (see `read_history`), on the clock of its blocks.

    A session of a version that did not note when its history begins has none.
    """
    begun_s = session.run.get("history_start_s")
    if not isinstance(begun_s, int | float) or not session.processes:
        return []
    clock = session.processes[0]
    return [
        Counter(name, [(clock.monotonic_ns(round((begun_s + time_s) * NS_PER_S)), value) for time_s, value in points])
        for name, points in read_history(session).items()
        if points
    ]


def gauge_events(record: ProcessRecord, tracks: Tracks) -> Iterator[dict[str, Any]]:
    """Yield what each gauge of a process said last, at the moment of the reading."""
    for name, (component, own_name) in record.gauge_owners().items():
        gauge = record.gauges[name]
        pid = tracks.processes.get(component or next(iter(record.components), ""))
        if pid is not None and gauge.count and record.read_ns >= tracks.zero_ns:
            yield _counter(own_name, pid, tracks.us(record.read_ns), gauge.to_dict()["value"])


def _counter(name: str, pid: int, ts: float, value: float) -> dict[str, Any]:
    return {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": ts, "args": {name: value}}
