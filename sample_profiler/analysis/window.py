"""What happened between two readings of a run: the steady part alone, without its start."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace

from sample_profiler.component_id import SLEEPERS
from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.gauges import GaugeNode
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.vocabulary import (
    BATCH_ROWS,
    CHILDREN_CPU_S,
    FRAMES,
    INFERENCE_BATCHES,
    INFERENCE_ROWS,
    LOOKS,
    MACHINE_BUSY_S,
    QUOTA_PERIODS,
    QUOTA_PERIODS_HELD_UP,
    SLEEPS,
    STOOD_STILL_S,
    sleep_counter,
)

__all__ = ["COUNTERS", "process_identity", "window", "with_recent_means"]

_MEAN, _SUM, _NUMBER = BATCH_ROWS, INFERENCE_ROWS, INFERENCE_BATCHES
COUNTERS = frozenset(
    {
        *("cpu_s", "system_s", "run_delay_s", "main_cpu_s", "main_run_delay_s", CHILDREN_CPU_S, MACHINE_BUSY_S),
        *(FRAMES, STOOD_STILL_S, _SUM, _NUMBER, QUOTA_PERIODS, QUOTA_PERIODS_HELD_UP),
        *(sleep_counter(kind, what) for kind in SLEEPERS for what in (LOOKS, *SLEEPS)),
    }
)
"""Gauges that count up; of these a window has what they rose by in its time."""


def window(later: Session, earlier: Session) -> Session:
    """Return what `later` has and `earlier` did not have yet; both stay as they are.

    Of each block, count and total are differences, those on a device too if it has done any of its passes since;
    extremes and histograms remain those of `later`. Gauges that count
    up are written now and then, blocks at once: so these gauges' rates between the two times when they were written
    count, for as long as the window is. One that was not written before and in between is left out. The mean batch of
    inference is that of the batches in between; runs that did not record their numbers have that since the start. A
    process that began in between is in it as a whole, one that ended before is not.
    """
    before = {process_identity(record): record for record in earlier.processes}
    processes = []
    for record in later.processes:
        first = before.get(process_identity(record))
        if first is None:
            processes.append(record)
        elif record.read_ns > first.read_ns:
            processes.append(_difference(record, first))
    return replace(later, processes=processes)


def with_recent_means(gauges: Mapping[str, GaugeNode], earlier: Mapping[str, GaugeNode]) -> dict[str, GaugeNode]:
    """Return gauges of a process with the means since `earlier` in the place of those since it began.

    Where nothing was added to a mean in between, there is none; one whose sum is not recorded stays as it is.
    """
    recent = dict(gauges)
    for name, gauge in gauges.items():
        head, slash, tail = name.rpartition("/")
        parts = [f"{head}{slash}{part}" for part in (_SUM, _NUMBER)]
        if tail == _MEAN and all(part in gauges and part in earlier for part in parts):
            total, number = (gauges[part].value - earlier[part].value for part in parts)
            del recent[name]
            if number > 0:
                recent[name] = GaugeNode(total / number)
                recent[name].updated_ns = gauge.updated_ns
    return recent


def process_identity(record: ProcessRecord) -> tuple[str, str, int, int]:
    """Return what two readings of a process have in common, and no other process has."""
    return record.host, record.name, record.pid, record.process_started_ns


def _difference(later: ProcessRecord, earlier: ProcessRecord) -> ProcessRecord:
    trees = {}
    for component, root in later.trees.items():
        trees[component] = copy.deepcopy(root)
        _subtract(trees[component], earlier.trees.get(component))
    gauges = {}
    for name, gauge in with_recent_means(later.gauges, earlier.gauges).items():
        first = earlier.gauges.get(name)
        if name.rpartition("/")[2] not in COUNTERS:
            gauges[name] = gauge
        elif first is not None and gauge.updated_ns > first.updated_ns:
            gauges[name] = _rise(gauge, first, later.read_ns - earlier.read_ns)
    return replace(later, trees=trees, gauges=gauges)


def _rise(later: GaugeNode, earlier: GaugeNode, wall_ns: int) -> GaugeNode:
    """Return by how much a gauge rises in a time, at its rate between two readings."""
    rise = GaugeNode((later.value - earlier.value) * wall_ns / (later.updated_ns - earlier.updated_ns))
    rise.updated_ns = later.updated_ns
    return rise


def _subtract(node: TreeNode, earlier: TreeNode | None) -> None:
    stack = [(node, earlier)]
    while stack:
        mine, theirs = stack.pop()
        if theirs is None:
            continue
        mine.statistics.total_ns = max(0, mine.statistics.total_ns - theirs.statistics.total_ns)
        mine.statistics.count = max(0, mine.statistics.count - theirs.statistics.count)
        if mine.device is not None and theirs.device is not None and mine.device.count > theirs.device.count:
            mine.device.count -= theirs.device.count
            mine.device.total_ns = max(0, mine.device.total_ns - theirs.device.total_ns)
        stack.extend((child, theirs.children.get(key)) for key, child in mine.children.items())
