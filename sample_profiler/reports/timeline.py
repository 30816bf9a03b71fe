"""Timelines: what every process did when, as a Chrome trace for https://ui.perfetto.dev or chrome://tracing.

A component is a process of the trace, also where several share one of the system's. Blocks of one thread that overlap
without one being inside the other, as those of tasks and generators may, go to further tracks of that thread, since
viewers nest by time. Flows are arrows: from an environment's step over the request for actions, inference and the next
step; from a finished trajectory to the training on it; from new weights to their first use.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import IO, Any

from sample_profiler.files import written_whole
from sample_profiler.profiling.flows import END, REQUEST, SLOT, START, WEIGHTS, read_flow_point
from sample_profiler.profiling.process_record import Event, ProcessRecord

__all__ = ["timeline_events", "write_timeline"]

_NS_PER_US = 1000
_ORDER = ("Runner", "RolloutWorker", "InferenceWorker", "Batcher", "Learner")
_FLOW_NAMES = {REQUEST: "request", SLOT: "trajectory", WEIGHTS: "weights"}
_MAX_TRACKS = 1024

_Place = tuple[int, int, int]
"""Process and track of the trace, and a moment in nanoseconds."""


def write_timeline(
    records: Sequence[ProcessRecord], output: Path, *, start_ns: int | None = None, end_ns: int | None = None
) -> int:
    """Write a timeline and return how many passes of blocks are in it.

    Args:
        records: of the processes, with events.
        output: is written; compressed if its name ends in ``.gz``.
        start_ns: on the clock of blocks: what has ended before is left out; None: nothing.
        end_ns: what begins after it is left out; None: nothing.

    Raises:
        OSError: it cannot be written; a file that was there is then as before.
    """
    num_passes = 0
    with written_whole(output) as partial, _open(partial) as file:
        file.write('{"displayTimeUnit":"ms","metadata":')
        file.write(json.dumps(_describe(records), separators=(",", ":")))
        file.write(',"traceEvents":[\n')
        separator = ""
        for event in timeline_events(records, start_ns=start_ns, end_ns=end_ns):
            num_passes += event["ph"] == "X"
            file.write(separator + json.dumps(event, separators=(",", ":"), allow_nan=False))
            separator = ",\n"
        file.write("\n]}\n")
    return num_passes


def timeline_events(
    records: Sequence[ProcessRecord], *, start_ns: int | None = None, end_ns: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the events of a Chrome trace; times are microseconds since the first of them.

    Args:
        records: of the processes, with events.
        start_ns: on the clock of blocks: what has ended before is left out; None: nothing.
        end_ns: what begins after it is left out; None: nothing.
    """
    window = (start_ns if start_ns is not None else 0, end_ns if end_ns is not None else 2**63)
    zero_ns = min((event.start_ns for record in records for event in _passes(record, window)), default=0)
    zero_ns = max(zero_ns, window[0])
    points: list[tuple[int, int, _Place]] = []
    tracks = _Tracks(zero_ns)
    for record in records:
        for component in record.components:
            yield from tracks.begin_process(component)
        yield from _record_events(record, window, tracks, points)
    yield from _flows(points, zero_ns)


class _Tracks:
    """Numbers for processes and tracks of the trace."""

    def __init__(self, zero_ns: int) -> None:
        self.zero_ns = zero_ns
        self.processes: dict[str, int] = {}
        self._ends_ns: dict[tuple[str, int], list[list[int]]] = {}

    def begin_process(self, component: str) -> Iterator[dict[str, Any]]:
        """Number a component and name it."""
        pid = self.processes.setdefault(component, len(self.processes) + 1)
        ranks = [rank for rank, name in enumerate(_ORDER) if component.startswith(name)]
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": component}}
        order = (ranks[0] if ranks else len(_ORDER)) * 1000 + pid
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": order}}

    def place(self, component: str, thread: int, start_ns: int, end_ns: int) -> tuple[int, bool]:
        """Return the track for a pass, and whether it is a new one; passes come in the order of their starts."""
        stacks = self._ends_ns.setdefault((component, thread), [])
        for number, ends_ns in enumerate(stacks):
            while ends_ns and ends_ns[-1] <= start_ns:
                ends_ns.pop()
            if not ends_ns or end_ns <= ends_ns[-1] or number == _MAX_TRACKS - 1:
                ends_ns.append(end_ns)
                return thread * _MAX_TRACKS + number, False
        stacks.append([end_ns])
        return thread * _MAX_TRACKS + len(stacks) - 1, True

    def us(self, time_ns: int) -> float:
        """Return a moment in microseconds since the beginning, never before it."""
        return max(0, time_ns - self.zero_ns) / _NS_PER_US


def _passes(record: ProcessRecord, window: tuple[int, int]) -> Iterator[Event]:
    """Yield the passes that lie in the window at least in part, those of open blocks included."""
    for event in record.events:
        if not event.is_flow_point and event.end_ns >= window[0] and event.start_ns <= window[1]:
            yield event
    nodes = {path: node for node, path in enumerate(record.paths)}
    for block in record.open_blocks:
        node = nodes.get((block.component, *block.path))
        if node is not None and block.since_ns <= window[1] and record.read_ns >= window[0]:
            yield Event(block.since_ns, record.read_ns, node, block.thread, _OPEN)


_OPEN = 1  # in the place of a flow's number, of which passes have none


def _record_events(
    record: ProcessRecord, window: tuple[int, int], tracks: _Tracks, points: list[tuple[int, int, _Place]]
) -> Iterator[dict[str, Any]]:
    passes = sorted(_passes(record, window), key=lambda event: (event.start_ns, -event.end_ns, event.node))
    marks = sorted((event for event in record.events if event.is_flow_point), key=lambda event: event.start_ns)
    places: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for event in passes:
        path = record.paths[event.node]
        if len(path) < 2 or path[0] not in tracks.processes:
            continue
        pid = tracks.processes[path[0]]
        tid, is_new = tracks.place(path[0], event.thread, event.start_ns, event.end_ns)
        if is_new:
            name = record.thread_names.get(event.thread, f"thread {event.thread}")
            more = tid % _MAX_TRACKS
            yield {
                "ph": "M",
                "name": "thread_name",
                "pid": pid,
                "tid": tid,
                "args": {"name": f"{name} ({more + 1})" if more else name},
            }
        places.setdefault((event.node, event.thread), []).append((event.start_ns, event.end_ns, tid))
        start_us = tracks.us(event.start_ns)
        shown: dict[str, Any] = {
            "ph": "X",
            "name": path[-1],
            "cat": path[0].partition("_")[0],
            "pid": pid,
            "tid": tid,
            "ts": start_us,
            "dur": round(tracks.us(event.end_ns) - start_us, 3),
            "args": {"path": "/".join(path[1:])},
        }
        if event.flow == _OPEN:
            shown["args"]["open"] = True
        yield shown
    for event in marks:
        if not window[0] <= event.start_ns <= window[1]:
            continue
        tid_at = _track_at(places.get((event.node, event.thread), ()), event.start_ns)
        component = record.paths[event.node][0]
        if tid_at is not None and component in tracks.processes:
            points.append((event.start_ns, event.flow, (tracks.processes[component], tid_at, event.start_ns)))
    yield from _gauges(record, tracks)


def _track_at(passes: Sequence[tuple[int, int, int]], time_ns: int) -> int | None:
    """Return the track of the pass that holds a moment; passes are in the order of their starts."""
    low, high = 0, len(passes)
    while low < high:
        middle = (low + high) // 2
        if passes[middle][0] <= time_ns:
            low = middle + 1
        else:
            high = middle
    # Passes of one block overlap only in tasks: then an earlier one may be it.
    for start_ns, end_ns, tid in reversed(passes[max(0, low - _MAX_TRACKS) : low]):
        if start_ns <= time_ns <= end_ns:
            return tid
    return None


def _gauges(record: ProcessRecord, tracks: _Tracks) -> Iterator[dict[str, Any]]:
    for name, gauge in record.gauges.items():
        component, _, own_name = name.rpartition("/")
        pid = tracks.processes.get(component or next(iter(record.components), ""))
        value = gauge.to_dict()["value"]
        if pid is not None and gauge.count and record.read_ns >= tracks.zero_ns:
            ts = tracks.us(record.read_ns)
            yield {"ph": "C", "name": own_name, "pid": pid, "tid": 0, "ts": ts, "args": {own_name: value}}


def _flows(points: Iterable[tuple[int, int, _Place]], zero_ns: int) -> Iterator[dict[str, Any]]:
    """Yield the arrows of all chains of at least two points; a number that begins anew is another chain."""
    numbers = count(1)
    chains: dict[tuple[int, int], list[_Place]] = {}
    for _, number, place in sorted(points):
        point = read_flow_point(number)
        chain = chains.setdefault((point.kind, point.payload), [])
        if point.phase == START:
            yield from _arrows(point.kind, chain, numbers, zero_ns)
            chain.clear()
        chain.append(place)
        if point.phase == END:
            yield from _arrows(point.kind, chain, numbers, zero_ns)
            chain.clear()
    for (kind, _), chain in chains.items():
        yield from _arrows(kind, chain, numbers, zero_ns)


def _arrows(kind: int, chain: Sequence[_Place], numbers: Iterator[int], zero_ns: int) -> Iterator[dict[str, Any]]:
    if len(chain) < 2:
        return
    number = next(numbers)
    for index, (pid, tid, time_ns) in enumerate(chain):
        phase = "s" if index == 0 else "f" if index == len(chain) - 1 else "t"
        event: dict[str, Any] = {
            "ph": phase,
            "name": _FLOW_NAMES.get(kind, f"flow {kind}"),
            "cat": "flow",
            "id": number,
            "pid": pid,
            "tid": tid,
            "ts": (time_ns - zero_ns) / _NS_PER_US,
        }
        if phase != "s":
            event["bp"] = "e"
        yield event


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


def _open(path: Path) -> IO[str]:
    if path.name.endswith(".gz"):
        return gzip.open(path, "wt", encoding="utf-8", compresslevel=4)
    return path.open("w", encoding="utf-8")
