"""Timelines: what every process did when, as a Chrome trace, or for https://ui.perfetto.dev alone.

A component is a process of the trace, also where several share one of the system's. The timers of code that has no
Timing at hand (`sample_profiler.timers`) are in that of the first one, on tracks of their own, at least one a thread.
Blocks of one thread that overlap without one being inside the other, as those of tasks and generators may, go to
further tracks of that thread, since viewers nest by time. Flows are arrows: from an environment's step over the
request for actions, inference and the next step; from a finished trajectory to the training on it; from new weights to
their first use.

Nothing here holds more than a piece of the trace. What is kept of all events is how they lie in time: eight bytes each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sample_profiler.analysis.lives import Life
from sample_profiler.profiling.record.events import Events
from sample_profiler.profiling.record.format import FLOW_POINT
from sample_profiler.profiling.record.process_record import TIMERS, ProcessRecord, is_timers
from sample_profiler.reports.merged.chrome_trace import NS_PER_US, named, to_json
from sample_profiler.reports.merged.perfetto_trace import write_trace
from sample_profiler.reports.timeline.captured_operators import CapturedTraces
from sample_profiler.reports.timeline.counters import RUN, Counter, gauge_events
from sample_profiler.reports.timeline.flows import FlowPoints
from sample_profiler.reports.timeline.slow_trajectories import trajectory_events
from sample_profiler.reports.timeline.tracks import MAX_THREAD, TIMERS_OF_THREAD, Tracks, track_name

__all__ = ["Timeline"]

_EVENT = np.dtype([("start", "i8"), ("end", "i8"), ("node", "u4"), ("thread", "u4"), ("flow", "u8")])
_AT_ONCE = 1 << 15
_OPEN = 1  # in the place of a flow's number, of which passes have none
_NEVER = 2**63 - 1
_UNKNOWN = (None, 0, "", "")

_Rows = npt.NDArray[np.void]


class Timeline:
    """A timeline of some processes.

    Args:
        records: of the processes, with events.
        start_ns: on the clock of blocks: what has ended before is left out; None: nothing.
        end_ns: what begins after it is left out; None: nothing.
        counters: figures over the time of the run.
        captures: traces of `torch.profiler`.
        lives: of trajectories that are to be seen by themselves.

    Attributes:
        num_passes: passes of blocks in it, open ones included; known once it is written.
        problems: what could not be shown, one sentence each; known once it is written.
    """

    def __init__(
        self,
        records: Sequence[ProcessRecord],
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
        counters: Sequence[Counter] = (),
        captures: Sequence[Path] = (),
        lives: Sequence[Life] = (),
    ) -> None:
        self.num_passes = 0
        self._records = records
        self._window = (start_ns if start_ns is not None else 0, end_ns if end_ns is not None else _NEVER)
        self._counters = counters
        self._lives = lives
        self._captures = CapturedTraces(captures, records)
        self._has_captures = bool(captures)

    @property
    def problems(self) -> list[str]:
        """What could not be shown."""
        return self._captures.problems

    def write(self, output: Path) -> None:
        """Write it.

        Args:
            output: is written, in the format that its name asks for (see `write_trace`).

        Raises:
            OSError: it cannot be written; a file that was there is then as before.
        """
        write_trace(output, self.lines(), lambda: {"metadata": _describe(self._records)})

    def lines(self) -> Iterator[str]:
        """Yield the events of a Chrome trace as JSON; times are microseconds since its beginning."""
        first_block_ns = {
            component: int(rows["start"].min())
            for record in self._records
            if len(rows := self._rows(record))
            for component in record.components
        }
        tracks = Tracks(self._zero_ns(first_block_ns.values()))
        if self._counters:
            yield from map(to_json, tracks.begin_process(RUN, rank=-1))
            for counter in self._counters:
                yield from map(to_json, counter.events(tracks, self._window[1]))
        # Numbers of slots and groups are those of one run.
        points = {record.rank: FlowPoints() for record in self._records}
        for record in self._records:
            for component in record.components:
                yield from map(to_json, tracks.begin_process(component))
            yield from self._passes(record, tracks, points[record.rank])
            yield from map(to_json, gauge_events(record, tracks))
        arrow_numbers = count(1)
        for of_rank in points.values():
            yield from of_rank.arrows(tracks.zero_ns, arrow_numbers)
        yield from map(to_json, trajectory_events(self._lives, tracks))
        yield from self._captures.lines(tracks, first_block_ns, self._window[1])

    def _zero_ns(self, firsts_ns: Any) -> int:
        """Return the moment that is 0: the first pass; or the beginning of the run, if all of it is shown."""
        moments = [*firsts_ns, *(counter.points[0][0] for counter in self._counters if counter.points)]
        if self._has_captures:
            moments += [record.process_started_ns for record in self._records]
        return max(self._window[0], min(moments, default=0))

    def _rows(self, record: ProcessRecord) -> _Rows:
        """Return the passes and marks in the window, in no order; of open blocks how long they have been so."""
        rows: _Rows = np.frombuffer(Events.of(record.events).data, _EVENT)
        begin_ns, end_ns = self._window
        last_ns = np.where(rows["end"] == FLOW_POINT, rows["start"], rows["end"])
        is_in_window = (last_ns >= begin_ns) & (rows["start"] <= end_ns)
        rows = rows if is_in_window.all() else rows[is_in_window]
        open_rows = self._open_rows(record)
        rows = np.concatenate([rows, np.array(open_rows, _EVENT)]) if open_rows else rows
        if len(rows) and rows["thread"].max() > MAX_THREAD:  # a file from elsewhere can say any number
            rows = rows.copy()
            np.minimum(rows["thread"], MAX_THREAD, out=rows["thread"])
        return rows

    def _open_rows(self, record: ProcessRecord) -> list[tuple[int, int, int, int, int]]:
        nodes = {path: node for node, path in enumerate(record.paths)}
        begin_ns, end_ns = self._window
        return [
            (block.since_ns, record.read_ns, node, min(block.thread, MAX_THREAD), _OPEN)
            for block in record.open_blocks
            if (node := nodes.get((block.component, *block.path))) is not None
            and block.since_ns <= end_ns
            and record.read_ns >= begin_ns
        ]

    def _passes(self, record: ProcessRecord, tracks: Tracks, points: FlowPoints) -> Iterator[str]:
        parts = [_parts(path, record, tracks) for path in record.paths]
        zero_ns = tracks.zero_ns
        rows = self._rows(record)
        marked = set(np.unique(rows["node"][rows["end"] == FLOW_POINT]).tolist())  # blocks with points of flows
        for start_ns, end_ns, node, thread, flow in _in_order(rows):
            # Of nodes that came after the names were read nothing is known.
            pid, timers, head, tail = parts[node] if node < len(parts) else _UNKNOWN
            if pid is None:
                continue
            thread |= timers
            if end_ns == FLOW_POINT:
                tid_at = tracks.holding(pid, thread, start_ns, node)
                if tid_at is not None:
                    points.add(start_ns, flow, pid, tid_at)
                continue
            tid, is_new = tracks.place(pid, thread, start_ns, end_ns, node if node in marked else None)
            if is_new:
                yield to_json(named("thread_name", pid, tid, track_name(record.thread_names, tid)))
            self.num_passes += 1
            begin_ns = max(start_ns, zero_ns)
            times = f'{tid},"ts":{(begin_ns - zero_ns) / NS_PER_US},"dur":{(end_ns - begin_ns) / NS_PER_US}'
            is_open = ',"open":true' if flow == _OPEN else ""
            yield f"{head}{times}{tail}{is_open}}}}}"


def _parts(path: Sequence[str], record: ProcessRecord, tracks: Tracks) -> tuple[int | None, int, str, str]:
    """Return what all passes of a block share.

    Returns:
        The process of the trace, or None; what marks the tracks of timers; and the text before and behind the times.
    """
    is_timer = is_timers(path[0])
    component = next(iter(record.components), "") if is_timer else path[0]
    pid = tracks.processes.get(component)
    if len(path) < 2 or pid is None:
        return _UNKNOWN
    kind = TIMERS if is_timer else component.partition("_")[0]
    head = f'{{"ph":"X","name":{json.dumps(path[-1])},"cat":{json.dumps(kind)},"pid":{pid},"tid":'
    tail = f',"args":{{"path":{json.dumps("/".join(path[1:]))}'
    return pid, TIMERS_OF_THREAD if is_timer else 0, head, tail


def _in_order(rows: _Rows) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield rows by their starts, outer ones first, points behind the passes that begin with them."""
    order = np.lexsort((rows["node"], -rows["end"], rows["start"]))
    for begin in range(0, len(order), _AT_ONCE):
        yield from rows[order[begin : begin + _AT_ONCE]].tolist()


def _describe(records: Sequence[ProcessRecord]) -> dict[str, Any]:
    return {
        record.name: {
            "pid": record.pid,
            "host": record.host,
            "components": record.components,
            "recorder": "compiled" if record.is_compiled else "pure Python",
            "events_lost": record.num_events_lost,
        }
        for record in records
    }
