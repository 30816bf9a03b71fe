"""Traces of `torch.profiler` of several processes as one Chrome trace, with the blocks of the code beside operators.

PyTorch writes times on the wall's clock: ``baseTimeNanoseconds`` plus ``ts`` microseconds. Blocks are on the monotonic
clock; each process's anchors tie the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.reports.merged.chrome_trace import NS_PER_US, ChromeTrace, named, to_json
from sample_profiler.reports.merged.perfetto_trace import write_trace

__all__ = ["BLOCK_CATEGORY", "merge_chrome_traces"]

BLOCK_CATEGORY = "sample_profiler"
"""Of passes of blocks, which are no operators."""

_FIRST_TRACK = 1 << 30  # of blocks: no thread of the system has such a number, and Perfetto takes none below 0


def merge_chrome_traces(
    parts: Mapping[str, Path],
    output: Path,
    records: Sequence[ProcessRecord] = (),
    windows: Mapping[str, tuple[int, int]] | None = None,
) -> list[str]:
    """Write one trace of several; one process of it is one component.

    Args:
        parts: traces as `torch.profiler` exports them, by component.
        output: is written, in the format that its name asks for (see `write_trace`).
        records: what these processes have recorded, with events: their blocks are shown, too.
        windows: for each component, from when to when (monotonic clock) its blocks are shown; None: all that there are.

    Returns:
        Line by line, what is missing in it: blocks that later ones have overwritten.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a part is no trace.
    """
    traces = {component: ChromeTrace(path) for component, path in parts.items()}
    by_component = {name: record for record in records for name in (*record.components, record.name)}
    first_ns = min((trace.wall_ns(event) for trace in traces.values() for event in _timed(trace)), default=0)
    windows = {component: (0, record.read_ns) for component, record in by_component.items()} | dict(windows or {})
    lost = [_describe_lost(c, by_component[c], windows[c][0], first_ns) for c in traces if c in by_component]
    missing = [line for line in lost if line]
    empty: list[str] = []

    def lines() -> Iterator[str]:
        for pid, (component, trace) in enumerate(traces.items(), start=1):
            has_operators = False
            for event in _merge_one(component, pid, trace, first_ns):
                has_operators |= event["ph"] == "X"
                yield to_json(event)
            if not has_operators:
                empty.append(component)
            if component in by_component:
                record = by_component[component]
                yield from map(to_json, _blocks(component, pid, record, windows[component], first_ns))

    def facts() -> dict[str, Any]:
        notes = [f"no operator ran in {', '.join(empty)}"] if empty else []
        return {"metadata": {"empty": empty, "note": "; ".join(notes + missing)}, "baseTimeNanoseconds": first_ns}

    write_trace(output, lines(), facts)
    return missing


def _describe_lost(component: str, record: ProcessRecord, start_ns: int, first_ns: int) -> str:
    """Say it if blocks after this moment have been overwritten; else nothing."""
    kept_ns = record.events[0].end_ns if record.events else record.read_ns
    if not record.num_events_lost or kept_ns <= start_ns:
        return ""
    second = (kept_ns + _shift_ns(record) - first_ns) / NS_PER_S
    # In pure Python, events are in the order of their blocks.
    which = f"blocks that ended before second {second:.1f}" if record.is_compiled else "some blocks"
    return (
        f"{component}: {which} were overwritten by later ones: capture for a shorter time, or start the run with a "
        "larger --flight_recorder_mb"
    )


def _shift_ns(record: ProcessRecord) -> int:
    """Return what a time on the monotonic clock of a process lacks to one of the wall's."""
    return record.start_anchor.wall_ns - record.start_anchor.monotonic_ns


def _timed(trace: ChromeTrace) -> Iterator[dict[str, Any]]:
    return (event for event in trace.events() if event.get("ph") != "M" and "ts" in event)


def _merge_one(component: str, pid: int, trace: ChromeTrace, first_ns: int) -> Iterator[dict[str, Any]]:
    """Yield the events of one process, under its own number, with identities that are nobody else's."""
    yield named("process_name", pid, 0, component)
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    for event in trace.events():
        if event.get("ph") == "M" and event.get("name", "").startswith("process_"):
            continue
        new = {**trace.on_clock(event, first_ns, component), "pid": pid}
        if "tid" in event:
            # PyTorch's own tracks beside the threads have a process of their own: a name tells them apart.
            new["tid"] = event["tid"] if isinstance(event.get("pid"), int) else f"{event.get('pid')} {event['tid']}"
        yield new


def _blocks(
    component: str, pid: int, record: ProcessRecord, window: tuple[int, int], first_ns: int
) -> Iterator[dict[str, Any]]:
    """Yield the passes of blocks: a component's as a track of their own, or one for each component of the process.

    The timers of the process (`sample_profiler.timers`) are with its first component, a track for each thread.
    """
    start_ns, end_ns = window
    shown = [component] if component in record.components else record.components
    timers = record.timers if record.components[:1] == shown[:1] else []
    threads = {name: _FIRST_TRACK + number for number, name in enumerate([*shown, *timers])}
    for name, thread in threads.items():
        title = name if name in timers else "blocks" if len(shown) == 1 else f"blocks of {name}"
        yield named("thread_name", pid, thread, title)
    shift_ns = _shift_ns(record) - first_ns
    found = (event for event in record.events if event.end_ns >= start_ns and event.start_ns <= end_ns)
    for event in sorted(found, key=lambda event: (event.start_ns, -event.end_ns)):
        path = record.paths[event.node]
        if event.is_flow_point or path[0] not in threads:
            continue
        yield {
            "ph": "X",
            "cat": BLOCK_CATEGORY,
            "name": path[-1],
            "pid": pid,
            "tid": threads[path[0]],
            "ts": round((event.start_ns + shift_ns) / NS_PER_US, 3),
            "dur": round((event.end_ns - event.start_ns) / NS_PER_US, 3),
            "args": {"path": "/".join(path[1:])},
        }
