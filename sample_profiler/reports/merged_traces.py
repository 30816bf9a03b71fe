"""Traces of `torch.profiler` of several processes as one Chrome trace, with the blocks of the code beside operators.

PyTorch writes times on the wall's clock: ``baseTimeNanoseconds`` plus ``ts`` microseconds. Blocks are on the monotonic
clock; each process's anchors tie the two.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sample_profiler.files import written_whole
from sample_profiler.profiling.process_record import ProcessRecord

__all__ = ["merge_chrome_traces"]

_FLOW_PHASES = {"s", "t", "f"}
_NS_PER_US = 1000.0
_MAX_TIME = 2.0**63


def merge_chrome_traces(
    parts: Mapping[str, Path],
    output: Path,
    records: Sequence[ProcessRecord] = (),
    windows: Mapping[str, tuple[int, int]] | None = None,
) -> None:
    """Write one trace of several; one process of it is one component.

    Args:
        parts: traces as `torch.profiler` exports them, by component.
        output: is written; compressed if its name ends in ``.gz``.
        records: what these processes have recorded, with events: their blocks are shown, too.
        windows: for each component, from when to when (monotonic clock) its blocks are shown; None: all that there are.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a part is no trace.
    """
    documents = {component: _load(path) for component, path in parts.items()}
    by_component = {name: record for record in records for name in (*record.components, record.name)}
    first_ns = min(
        (_wall_ns(document, event) for document in documents.values() for event in _timed(document)), default=0
    )
    events: list[dict[str, Any]] = []
    empty = []
    for pid, (component, document) in enumerate(documents.items(), start=1):
        record = by_component.get(component)
        window = None if windows is None else windows.get(component)
        operators = list(_merge_one(component, pid, document, first_ns))
        blocks = [] if record is None else list(_blocks(component, pid, record, window, first_ns))
        if not any(event["ph"] == "X" for event in operators):
            empty.append(component)
        events += [*operators, *blocks]
    note = f"no operator ran in {', '.join(empty)}" if empty else ""
    merged = {"traceEvents": events, "displayTimeUnit": "ms", "metadata": {"empty": empty, "note": note}}
    try:
        _write(merged, output)
    except (ValueError, RecursionError) as error:  # numbers that are none, or what is nested too deeply
        raise ValueError(f"no trace can be made of {', '.join(map(str, parts.values()))}: {error}") from error


def _load(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        _check(document)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is no trace: {error}; capture again") from error
    return document


def _check(document: Any) -> None:
    """Raise a TypeError if a document is not as `torch.profiler` writes it, as far as it is looked at here."""
    if not isinstance(document, dict) or not isinstance(document["traceEvents"], list):
        raise TypeError("its events are no list")
    numbers = [document.get("baseTimeNanoseconds", 0)]
    for event in document["traceEvents"]:
        if not isinstance(event, dict):
            raise TypeError(f"{event!r:.80} is no event")
        if not isinstance(event.get("ph"), str) or not isinstance(event.get("name", ""), str):
            raise TypeError(f"{event!r:.80} has no name or no kind")
        numbers += [event.get("ts", 0), event.get("dur", 0)]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) < _MAX_TIME:
            raise TypeError(f"{number!r:.80} is no time")


def _timed(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return (event for event in document["traceEvents"] if event.get("ph") != "M" and "ts" in event)


def _wall_ns(document: Mapping[str, Any], event: Mapping[str, Any]) -> int:
    return int(document.get("baseTimeNanoseconds", 0)) + round(float(event["ts"]) * _NS_PER_US)


def _merge_one(component: str, pid: int, document: Mapping[str, Any], first_ns: int) -> Iterator[dict[str, Any]]:
    """Yield the events of one process, under its own number, with identities that are nobody else's."""
    base_ns = int(document.get("baseTimeNanoseconds", 0))
    yield _named("process_name", pid, 0, component)
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    for event in document["traceEvents"]:
        if event.get("ph") == "M" and event.get("name", "").startswith("process_"):
            continue
        new = {**event, "pid": pid}
        if "tid" in event:
            # PyTorch's own tracks beside the threads have a process of their own: a name tells them apart.
            new["tid"] = event["tid"] if isinstance(event.get("pid"), int) else f"{event.get('pid')} {event['tid']}"
        if "ts" in event:
            # Whole numbers first: a float holds no nanoseconds since 1970.
            new["ts"] = round(float(event["ts"]) + (base_ns - first_ns) / _NS_PER_US, 3)
        if event.get("ph") in _FLOW_PHASES and "id" in event:
            new["id"] = f"{component}:{event['id']}"
        yield new


def _blocks(
    component: str, pid: int, record: ProcessRecord, window: tuple[int, int] | None, first_ns: int
) -> Iterator[dict[str, Any]]:
    """Yield the passes of blocks: a component's as a track of their own, or one for each component of the process."""
    start_ns, end_ns = window or (0, record.read_ns)
    shown = [component] if component in record.components else record.components
    threads = {name: -number for number, name in enumerate(shown)}
    for name, thread in threads.items():
        yield _named("thread_name", pid, thread, "blocks" if len(shown) == 1 else f"blocks of {name}")
    shift_ns = record.start_anchor.wall_ns - record.start_anchor.monotonic_ns - first_ns
    for event in sorted(record.events, key=lambda event: (event.start_ns, -event.end_ns)):
        path = record.paths[event.node]
        if event.is_flow_point or path[0] not in threads or event.end_ns < start_ns or event.start_ns > end_ns:
            continue
        yield {
            "ph": "X",
            "cat": "sample_profiler",
            "name": path[-1],
            "pid": pid,
            "tid": threads[path[0]],
            "ts": round((event.start_ns + shift_ns) / _NS_PER_US, 3),
            "dur": round((event.end_ns - event.start_ns) / _NS_PER_US, 3),
            "args": {"path": "/".join(path[1:])},
        }


def _named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _write(document: Mapping[str, Any], output: Path) -> None:
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    with written_whole(output) as partial:
        partial.write_bytes(gzip.compress(text.encode()) if output.name.endswith(".gz") else text.encode())
