"""The JSON document of timers: of one process, and of a run with all its workers. Pure functions and one writer.

The document of a run has two nodes beside the main process's own timers::

    workers                  all workers; its total is the sum of theirs
      RolloutWorker_w0         one worker, with its blocks: a straggler can be seen
      RolloutWorker_w1
    workers_merged           the same time again, merged
      RolloutWorker            all workers of one group, block by block

and its gauges each worker's own as ``RolloutWorker_w0/free_slots``, and merged as ``free_slots``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sample_profiler.files import written_whole
from sample_profiler.profiling.record.process_record import THREAD_TIMERS, TIMERS, ProcessRecord
from sample_profiler.profiling.timers.nodes import ROOT_NAME, TimerNode
from sample_profiler.profiling.timers.stacks import copy_gauges, merge_gauges_into
from sample_profiler.profiling.tree.gauges import GaugeNode

THREADS = "threads"
"""The node under which a document has the timers of all threads but the main one."""
_WORKERS = "workers"
_WORKERS_MERGED = "workers_merged"


@dataclass(frozen=True, kw_only=True)
class WorkerTimers:
    """Everything that one worker has recorded since its start, as it delivers it from time to time.

    It replaces what the same process delivered before: a lost or repeated delivery changes nothing.

    Attributes:
        worker: The name of the component, such as ``RolloutWorker_w0``.
        group: What it is merged with, such as ``RolloutWorker``.
        process: Tells the processes apart that had this name one after another.
        root: Its tree.
        gauges: Its gauges by name.
    """

    worker: str
    group: str
    process: int
    root: TimerNode
    gauges: Mapping[str, GaugeNode] = field(default_factory=dict)


def worker_timers(record: ProcessRecord) -> list[WorkerTimers]:
    """Return what each component of a process has recorded.

    Gauges named ``component/name`` are the component's; all others, with slashes or without, are the process's, and go
    to its first component, as do the timers of code that has no Timing at hand: those of the main thread beside the
    component's blocks, those of all others merged under ``threads``.
    """
    workers = []
    owned = tuple(f"{component}/" for component in record.components)
    for component in record.components:
        root = TimerNode.from_tree(record.trees[component])
        prefix = f"{component}/"
        gauges = {name.removeprefix(prefix): g for name, g in record.gauges.items() if name.startswith(prefix)}
        if component == record.components[0]:
            gauges |= {name: gauge for name, gauge in record.gauges.items() if not name.startswith(owned)}
            _merge_timers(root, record)
        group = component.partition("_")[0]
        workers.append(WorkerTimers(worker=component, group=group, process=record.pid, root=root, gauges=gauges))
    return workers


def _merge_timers(root: TimerNode, record: ProcessRecord) -> None:
    for name, tree in record.trees.items():
        if name == TIMERS:
            for key, child in TimerNode.from_tree(tree).children.items():
                root.merge(child, root_name=key, is_parallel=False)
        elif name.startswith(THREAD_TIMERS) and tree.children:
            root.merge(TimerNode.from_tree(tree), root_name=THREADS)


def keep_latest(deliveries: Iterable[WorkerTimers]) -> list[WorkerTimers]:
    """Return the last delivery of each worker's process, in the order in which these first delivered."""
    return list({(delivery.worker, delivery.process): delivery for delivery in deliveries}.values())


def merge_workers(root: TimerNode, workers: Iterable[WorkerTimers]) -> TimerNode:
    """Return a root with the timers of a main process, each worker's own and their merge.

    Args:
        root: The timers of the main process; they stay as they are.
        workers: The latest delivery of every worker's process; those of one name, as when a worker was replaced, add
            up.
    """
    merged = root.copy()
    each, groups = TimerNode(), TimerNode()
    for worker in workers:
        each.merge(worker.root, root_name=worker.worker, is_parallel=False)
        groups.merge(worker.root, root_name=worker.group)
    for name, node in ((_WORKERS, each), (_WORKERS_MERGED, groups)):
        for child in node.children.values():
            node.merge(_without_children(child))
        if node.count:
            merged.merge(node, root_name=name, is_parallel=False)
    return merged


def merge_worker_gauges(gauges: Mapping[str, GaugeNode], workers: Iterable[WorkerTimers]) -> dict[str, GaugeNode]:
    """Return the gauges of a main process, those of the workers merged, and each worker's own as ``worker/name``."""
    merged, each = copy_gauges(gauges), dict[str, GaugeNode]()
    for worker in workers:
        merge_gauges_into(merged, worker.gauges)
        merge_gauges_into(each, {f"{worker.worker}/{name}": gauge for name, gauge in worker.gauges.items()})
    merge_gauges_into(merged, each)
    return merged


def make_document(root: TimerNode, gauges: Mapping[str, GaugeNode], metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON-ready document of a tree; gauges that were never set are left out."""
    document: dict[str, Any] = {"name": ROOT_NAME}
    if plain_gauges := {name: gauge.to_dict() for name, gauge in gauges.items() if gauge.count}:
        document["gauges"] = plain_gauges
    document["metadata"] = dict(metadata)
    document.update(root.to_dict())
    return document


def make_run_document(
    root: TimerNode,
    gauges: Mapping[str, GaugeNode],
    metadata: Mapping[str, str],
    workers: Iterable[WorkerTimers],
) -> dict[str, Any]:
    """Return the JSON-ready document of a run: of its main process and of what its workers have delivered."""
    latest = keep_latest(workers)
    return make_document(merge_workers(root, latest), merge_worker_gauges(gauges, latest), metadata)


def write_document(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a document as a whole or not at all, making its folder: readers never see half of it.

    Raises:
        OSError: The file cannot be written; one that was there is then as before.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as partial:
        partial.write_text(json.dumps(document, indent=4, allow_nan=False) + "\n", encoding="utf-8")


def _without_children(node: TimerNode) -> TimerNode:
    tree = node.to_tree()
    tree.children.clear()
    return TimerNode.from_tree(tree)
