"""Owns the picture of a process that gives no sign of life: where it is, and what it did last."""

from __future__ import annotations

from sample_profiler.profiling.record.process_record import OpenBlock, ProcessRecord
from sample_profiler.profiling.tree.render import printable
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.reports.sections.tables import format_duration

__all__ = ["describe_hang", "describe_latest_place", "describe_place"]

_NUM_LATEST = 8


def describe_hang(record: ProcessRecord, now_ns: int) -> str:
    """Return the open blocks and the latest passes of a process, a line each.

    Args:
        record: of the process, with its events.
        now_ns: on the clock of blocks.
    """
    lines = ["open blocks, outer ones first:"]
    lines += [f"  {_describe_block(block, now_ns)}" for block in record.open_blocks]
    if not record.open_blocks:
        lines.append("  none")
    passes = [event for event in record.events if not event.is_flow_point][-_NUM_LATEST:]
    if passes:
        lines.append("latest blocks that were left, oldest first:")
    for event in passes:
        component, *path = record.paths[event.node]
        took = format_duration((event.end_ns - event.start_ns) / NS_PER_S)
        since = format_duration((now_ns - event.end_ns) / NS_PER_S)
        lines.append(f"  {_show(component, tuple(path))} took {took}, left {since} ago")
    return "\n".join(lines)


def describe_place(record: ProcessRecord, now_ns: int) -> str:
    """Return the block that a component sits in, its timers' included, and for how long; empty: it is in none.

    Args:
        record: of its process.
        now_ns: on the clock of blocks.
    """
    trees = (record.name, *record.timers)
    blocks = [block for tree in trees if (block := record.innermost_open_block(tree)) is not None]
    return _describe_block(max(blocks, key=lambda block: block.since_ns), now_ns) if blocks else ""


def describe_latest_place(record: ProcessRecord, now_ns: int) -> str:
    """Return the component and the block that a process sits in, and for how long; empty: it is in none.

    Args:
        record: of a process in which several components take turns.
        now_ns: on the clock of blocks.
    """
    latest = max(record.open_blocks, key=lambda block: (block.since_ns, len(block.path)), default=None)
    return f"{printable(latest.component)}, in {_describe_block(latest, now_ns)}," if latest else ""


def _describe_block(block: OpenBlock, now_ns: int) -> str:
    return f"{_show(block.component, block.path)} for {format_duration((now_ns - block.since_ns) / NS_PER_S)}"


def _show(component: str, path: tuple[str, ...]) -> str:
    return printable("/".join(path) or component)
