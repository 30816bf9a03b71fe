"""Sessions as JSON-ready data and back, in schema version 2; version 1 is read, too.

Trees are flat lists of nodes, each with the index of its parent: code that recurses makes trees deeper than readers of
JSON can go. Events are columns of little-endian integers, compressed.
"""

from __future__ import annotations

import base64
import math
import sys
import zlib
from array import array
from collections.abc import Mapping
from typing import Any

from sample_profiler.errors import SampleProfilerError, SessionError
from sample_profiler.profiling.record.events import Events
from sample_profiler.profiling.record.process_record import Anchor, OpenBlock, ProcessRecord
from sample_profiler.profiling.session.checks import check_session_fields
from sample_profiler.profiling.tree.gauges import GaugeNode
from sample_profiler.profiling.tree.kinds import make_kind
from sample_profiler.profiling.tree.statistics import NS_PER_S, DeviceStatistics, Statistics
from sample_profiler.profiling.tree.tree import TreeNode

__all__ = ["SCHEMA_VERSION", "session_from_dict", "session_to_dict"]

SCHEMA_VERSION = 2

_EVENTS_KEPT_NS = 10 * NS_PER_S
_MAX_EVENTS = 1 << 25  # of all processes: 900 MiB
# Start since the event before, duration (-1: a flow point), node, thread, flow.
_COLUMNS = "qqIIQ"
_COMPRESSION = 3  # 6 takes three times as long, at the end of each run, for 4 % less
_PLAIN_FIELDS = (
    *("name", "pid", "host", "is_compiled", "is_closed", "state", "process_started_ns", "read_ns", "metadata"),
    *("titles", "num_events_lost", "num_nodes_dropped"),
)
_CURE = "give a session.json that a run left behind"


def session_to_dict(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON-ready data of the fields of a Session."""
    processes = [_process_to_dict(record) for record in fields["processes"]]
    return {"schema_version": SCHEMA_VERSION, **fields, "processes": processes}


def session_from_dict(document: Any, *, source: str, with_events: bool = True) -> dict[str, Any]:
    """Return the fields of a Session.

    Args:
        document: what `session_to_dict` returned, or a session of schema version 1.
        source: where it is from, for messages.
        with_events: whether to unpack the events, too.

    Raises:
        SessionError: it is neither.
    """
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version == 1:
        read = _read_version_1
    elif version == SCHEMA_VERSION:
        read = _read_version_2
    elif isinstance(version, int):
        raise SessionError(
            f"{source} has schema version {version}; this sample_profiler reads 1 and {SCHEMA_VERSION}: "
            "read it with the sample_profiler that made it"
        )
    else:
        raise SessionError(f"{source} is no session: it has no schema_version; {_CURE}")
    try:
        fields = read(document, with_events)
        check_session_fields(fields)
    except (
        *(AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError, zlib.error),
        SampleProfilerError,
    ) as error:
        reason = " ".join(str(error).split())[:200]
        raise SessionError(f"{source} is a damaged session: {type(error).__name__} {reason}; {_CURE}") from error
    return fields


def _read_version_2(document: dict[str, Any], with_events: bool) -> dict[str, Any]:
    created_s = float(document["created_s"])
    if with_events:
        num_events = sum(abs(int(plain["events"]["num_events"])) for plain in document["processes"])
        if num_events > _MAX_EVENTS:
            raise ValueError(f"it has {num_events} events")
    return {
        "created_s": created_s,
        "run": dict(document["run"]),
        "machine": dict(document["machine"]),
        "config": dict(document["config"]),
        "processes": [_process_from_dict(plain, with_events) for plain in document["processes"]],
        "problems": [str(problem) for problem in document["problems"]],
    }


def _read_version_1(document: dict[str, Any], with_events: bool) -> dict[str, Any]:  # noqa: ARG001
    """One tree a component and nothing else: each component becomes a process, for there is no word of processes."""
    processes = []
    for component, plain in document["trees"].items():
        tree = TreeNode.from_dict(plain)
        processes.append(
            ProcessRecord(
                name=component,
                pid=0,
                host="",
                is_compiled=False,
                is_closed=True,
                state="ended",
                process_started_ns=0,
                read_ns=tree.statistics.total_ns,
                start_anchor=Anchor(0, 0, 0),
                end_anchor=Anchor(tree.statistics.total_ns, 0, 0),
                trees={component: tree},
                titles={component: str(plain.get("name", component))},
            )
        )
    return {"created_s": 0.0, "run": {"reason": document.get("reason")}, "processes": processes}


def _process_to_dict(record: ProcessRecord) -> dict[str, Any]:
    return {
        **{name: getattr(record, name) for name in _PLAIN_FIELDS},
        "start_anchor": list(record.start_anchor),
        "end_anchor": None if record.end_anchor is None else list(record.end_anchor),
        "trees": {component: _tree_to_rows(tree) for component, tree in record.trees.items()},
        "gauges": {name: _gauge_to_dict(gauge) for name, gauge in record.gauges.items()},
        "paths": [list(path) for path in record.paths],
        "thread_names": {str(number): name for number, name in record.thread_names.items()},
        "open_blocks": [list(block) for block in record.open_blocks],
        "events": _events_to_dict(_latest(Events.of(record.events))),
    }


def _process_from_dict(plain: dict[str, Any], with_events: bool) -> ProcessRecord:
    return ProcessRecord(
        **{name: plain[name] for name in _PLAIN_FIELDS},
        start_anchor=Anchor(*plain["start_anchor"]),
        end_anchor=None if plain["end_anchor"] is None else Anchor(*plain["end_anchor"]),
        trees={component: _tree_from_rows(rows) for component, rows in plain["trees"].items()},
        gauges={name: _gauge_from_dict(gauge) for name, gauge in plain["gauges"].items()},
        paths=[tuple(path) for path in plain["paths"]],
        thread_names={int(number): name for number, name in plain["thread_names"].items()},
        open_blocks=[
            OpenBlock(component, tuple(path), since_ns, thread)
            for component, path, since_ns, thread in plain["open_blocks"]
        ],
        events=_events_from_dict(plain["events"]) if with_events else Events(),
    )


def _tree_to_rows(tree: TreeNode) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    stack = [(tree, -1)]
    while stack:
        node, parent = stack.pop()
        stack.extend((child, len(rows)) for child in reversed(node.children.values()))
        row = {"parent": parent, "key": node.key, "kind": node.kind.method, **node.statistics.to_dict()}
        if node.kind.window is not None:
            row["window"] = node.kind.window
        if node.is_parallel:
            row["is_parallel"] = True
        if node.device is not None:
            row["device"] = node.device.to_dict()
        rows.append(row)
    return rows


def _tree_from_rows(rows: list[dict[str, Any]]) -> TreeNode:
    nodes: list[TreeNode] = []
    for row in rows:
        node = TreeNode(row["key"], make_kind(row["kind"], row.get("window")))
        node.statistics = Statistics.from_dict(row)
        node.is_parallel = bool(row.get("is_parallel", False))
        node.device = DeviceStatistics.from_dict(row["device"]) if "device" in row else None
        if nodes:
            if row["parent"] < 0:
                raise ValueError("a tree has two roots")
            nodes[row["parent"]].children[node.key] = node
        nodes.append(node)
    return nodes[0]


def _gauge_to_dict(gauge: GaugeNode) -> dict[str, float]:
    return {**gauge.to_dict(), "updated_ns": gauge.updated_ns}


def _gauge_from_dict(plain: Mapping[str, float]) -> GaugeNode:
    gauge = GaugeNode()
    gauge.value, gauge.min_value, gauge.max_value = (_to_infinite(float(plain[key])) for key in ("value", "min", "max"))
    gauge.count, gauge.updated_ns = int(plain["count"]), int(plain["updated_ns"])
    if math.isnan(gauge.value):
        raise ValueError("a gauge is not a number")
    return gauge


def _to_infinite(value: float) -> float:
    # JSON knows no infinity: the largest float stands for it.
    return math.copysign(math.inf, value) if abs(value) == sys.float_info.max else value


def _latest(events: Events) -> Events:
    return events.since(events.latest_ns() - _EVENTS_KEPT_NS)


def _events_to_dict(events: Events) -> dict[str, Any]:
    plain: dict[str, Any] = {"num_events": len(events)}
    if events:
        plain["columns"] = [_pack(column) for column in events.columns()]
    return plain


def _events_from_dict(plain: dict[str, Any]) -> Events:
    length = int(plain["num_events"])
    if not length:
        return Events()
    columns = (_unpack(code, text, length) for code, text in zip(_COLUMNS, plain["columns"], strict=True))
    return Events.from_columns(*columns)


def _pack(column: array[int]) -> str:
    if sys.byteorder == "big":
        column.byteswap()
    return base64.b64encode(zlib.compress(column.tobytes(), _COMPRESSION)).decode()


def _unpack(code: str, text: str, length: int) -> array[int]:
    column = array(code)
    size = length * column.itemsize
    if length < 0:
        raise ValueError(f"it has {length} events")
    data = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), size + 1)
    if len(data) != size:
        raise ValueError(f"it has {len(data)} bytes of events and should have {size}")
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column
