"""Owns what the fields of a session have to be, so that whoever computes with one from elsewhere can rely on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from sample_profiler.profiling.record.events import Events
from sample_profiler.profiling.record.format import FLOW_POINT
from sample_profiler.profiling.record.process_record import ProcessRecord, ProcessState
from sample_profiler.profiling.tree.tree import MAX_DEPTH, TreeNode

__all__ = ["MAX_SECONDS", "check_run", "check_session_fields"]

MAX_SECONDS = 2.0**33
"""Of moments: in the year 2242; later ones are no dates everywhere."""

_MAX_INTEGER = 2**63 - 1
_MAX_THREADS = 2**32


def check_session_fields(fields: Mapping[str, Any]) -> None:
    """Check the fields of a Session that were put together from a document.

    Raises:
        ValueError: one of them is not what it has to be.
    """
    _check("created_s", fields["created_s"], float, 0, MAX_SECONDS)
    check_run(fields["run"])
    if fields.get("machine", {}).get("num_cpus") is not None:
        _check("machine/num_cpus", fields["machine"]["num_cpus"], int, 1, _MAX_THREADS)
    for name, value in fields.get("config", {}).items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, list | dict):
                raise ValueError(f"the flag {name} is {value!r:.80}")
    for record in fields["processes"]:
        _check_record(record)


def check_run(run: Mapping[str, Any]) -> None:
    """Check facts about a run.

    Raises:
        ValueError: one of them is not what it has to be.
    """
    for name in ("fps", "steady_fps", "elapsed_s", "start_s", "seed"):
        if run.get(name) is not None:
            _check(f"run/{name}", run[name], int | float)
    if run.get("history_start_s") is not None:
        _check("run/history_start_s", run["history_start_s"], int | float, 0, MAX_SECONDS)
    frames = run.get("frames")
    if frames is not None:
        _check("run/frames", frames, dict)
        for value in frames.values():
            _check("run/frames", value, int | float)


def _check_record(record: ProcessRecord) -> None:
    _check_texts("name and host", (record.name, record.host))
    if record.state not in get_args(ProcessState):
        raise ValueError(f"the state of a process is {record.state!r:.80}")
    for name in ("pid", "process_started_ns", "read_ns", "num_events_lost", "num_nodes_dropped"):
        _check(name, getattr(record, name), int, 0)
    for name in ("is_compiled", "is_closed"):
        _check(name, getattr(record, name), bool)
    for anchor in record.anchors:
        for value in anchor:
            _check("an anchor", value, int, 0)
    for name in ("metadata", "titles"):
        texts = getattr(record, name)
        _check(name, texts, dict)
        _check_texts(name, texts.values())
    for tree in record.trees.values():
        _check_tree(tree)
    for gauge in record.gauges.values():
        for figure in (gauge.value, gauge.min_value, gauge.max_value):
            if not isinstance(figure, float):  # programs may set infinite ones
                raise ValueError(f"a gauge is {figure!r:.80}")
        _check("a gauge's count", gauge.count, int, 0)
        _check("a gauge's time", gauge.updated_ns, int, 0)
    for path in record.paths:
        _check_texts("a path", path)
        if not path:
            raise ValueError("a path is empty")
    _check_texts("a thread's name", record.thread_names.values())
    for block in record.open_blocks:
        _check_texts("an open block", (block.component, *block.path))
        if not block.path:
            raise ValueError("an open block has no path")
        _check("an open block's time", block.since_ns, int, 0)
        _check("an open block's thread", block.thread, int, 0, _MAX_THREADS)
    if record.events:
        start_ns, end_ns, node = Events.of(record.events).extremes()
        if node >= len(record.paths):
            raise ValueError(f"an event is of block {node}, and there are {len(record.paths)}")
        _check("an event's start", start_ns, int, 0)
        _check("an event's end", end_ns, int, FLOW_POINT)


def _check_tree(tree: TreeNode) -> None:
    stack = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise ValueError(f"a tree is deeper than {MAX_DEPTH} blocks")
        _check_texts("the key of a block", (node.key,))
        statistics, device = node.statistics, node.device
        values = [statistics.count, statistics.total_ns, statistics.min_ns, statistics.max_ns, statistics.last_ns]
        values += [*statistics.recent_ns, *statistics.histogram, *statistics.histogram.values()]
        if device is not None:
            values += [device.count, device.total_ns, device.num_unresolved]
        for value in values:
            _check(f"a figure of {node.key!r:.80}", value, int, 0)
        stack.extend((child, depth + 1) for child in node.children.values())


def _check(
    what: str, value: Any, kind: Any, minimum: float = -float(_MAX_INTEGER), maximum: float = float(_MAX_INTEGER)
) -> None:
    is_number = kind is not bool and isinstance(value, int | float)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{what} is {value!r:.80}")
    if is_number and not minimum <= value <= maximum:
        raise ValueError(f"{what} is {value!r:.80}")


def _check_texts(what: str, values: Iterable[Any]) -> None:
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"{what}: {value!r:.80} is no text")
