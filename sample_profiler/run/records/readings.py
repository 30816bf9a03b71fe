"""Owns what counters and gauges of a run stood at over its time: of a long run as many readings as of a short one."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from functools import partial

from sample_profiler.analysis.window import COUNTERS
from sample_profiler.component_id import ROLLOUT_WORKER
from sample_profiler.profiling.record.process_record import PROCESS_GAUGES, ProcessRecord
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.run.records.history import Columns
from sample_profiler.vocabulary import (
    AVAILABLE_MEMORY_MIB,
    CHILDREN_CPU_S,
    GPU_MEMORY_MIB,
    INFERENCE_BATCHES,
    INFERENCE_ROWS,
    MACHINE_BUSY_S,
    MAIN_LOOP,
    QUOTA_PERIODS,
    QUOTA_PERIODS_HELD_UP,
    STOOD_STILL_S,
)

__all__ = ["RunReadings"]

_MOST_READINGS = 240  # even, so that of one more than that each second one is kept, and the latest with them
_MOST_COLUMNS = 5000  # some 10 MB; beyond that components that were seen later have none
_LEAST_SHARE = 0.003  # of the time: blocks that take less are not written
_DIGITS = 7
_MOST_LEVELS = {ROLLOUT_WORKER: 2}  # of blocks: there are many workers, and what they do is at the top
_MOST_LEVELS_OF_OTHERS = 5
_GAUGES = frozenset(
    {
        *(*PROCESS_GAUGES, AVAILABLE_MEMORY_MIB, CHILDREN_CPU_S, GPU_MEMORY_MIB, INFERENCE_BATCHES, INFERENCE_ROWS),
        *(MACHINE_BUSY_S, QUOTA_PERIODS, QUOTA_PERIODS_HELD_UP, STOOD_STILL_S),
    }
)
_SECONDS, _PASSES = "seconds", "passes"

_Key = tuple[str, ...]
"""The owner and the name of a gauge; or the component and the path of a block, and which of its two figures."""


class RunReadings:
    """What was read of a run now and then. Readings are evenly apart as far as they come so; the latest is kept."""

    def __init__(self) -> None:
        self._times_s = array("d")
        self._columns: dict[_Key, array[float]] = {}
        self._before: dict[_Key, float] = {}  # what predecessors have counted
        self._spacing = 1
        self._num_read = 0

    def add(self, time_s: float, figures: Mapping[str, float], records: list[ProcessRecord]) -> None:
        """Note what processes have recorded at a time later than all before, in seconds since the run began.

        Args:
            time_s: when they were read.
            figures: of the whole run, which count up, by name.
            records: of living processes, with trees and gauges.
        """
        if self._num_read and (self._num_read - 1) % self._spacing:
            self._drop(len(self._times_s) - 1, len(self._times_s))  # it was there as the latest
        self._times_s.append(time_s)
        self._num_read += 1
        for name, value in figures.items():
            self._put(("", name), value, counts_up=True)
        for record in records:
            for key, value, counts_up in _figures_of(record):
                self._put(key, value, counts_up=counts_up)
        for column in self._columns.values():
            if len(column) < len(self._times_s):
                column.append(math.nan)
        if len(self._times_s) > _MOST_READINGS:
            for values in (self._times_s, *self._columns.values()):
                values[:] = values[::2]
            self._spacing *= 2

    def columns(self) -> Columns:
        """Return them as data for `analysis.trends.readings`, without blocks that take hardly any time."""
        gauges: dict[str, dict[str, Columns]] = {}
        blocks: dict[str, dict[str, dict[str, Columns]]] = {}
        for key, column in self._columns.items():
            if len(key) == 2:
                gauges.setdefault(key[0], {})[key[1]] = partial(_rounded, column)
            elif self._takes_time(key):
                blocks.setdefault(key[0], {}).setdefault(key[1], {})[key[2]] = partial(_rounded, column)
        return {"times_s": partial(_rounded, self._times_s), "gauges": gauges, "blocks": blocks}

    def _put(self, key: _Key, value: float, *, counts_up: bool) -> None:
        column = self._columns.get(key)
        if column is None:
            is_second = (*key[:2], _SECONDS) in self._columns  # of a block, whose two figures are of use together
            if len(self._columns) >= _MOST_COLUMNS and not (key[2:] == (_PASSES,) and is_second):
                return
            column = self._columns[key] = array("d", [math.nan] * (len(self._times_s) - 1))
        value = round(value, 6)
        if counts_up:
            latest = next((each for each in reversed(column) if not math.isnan(each)), 0.0)
            before = self._before.get(key, 0.0)
            if value + before < latest:  # a successor begins at nothing
                self._before[key] = before = latest
            value += before
        column.append(value)

    def _drop(self, begin: int, end: int) -> None:
        for values in (self._times_s, *self._columns.values()):
            del values[begin:end]

    def _takes_time(self, key: _Key) -> bool:
        seconds = self._columns[(*key[:2], _SECONDS)]
        half = len(seconds) // 2
        return any(
            seconds[end] - (0.0 if math.isnan(seconds[begin]) else seconds[begin])
            >= _LEAST_SHARE * (self._times_s[end] - self._times_s[begin])
            for begin, end in ((0, half), (half, len(seconds) - 1))
            if end > begin
        )


def _figures_of(record: ProcessRecord) -> Iterator[tuple[_Key, float, bool]]:
    """Yield the key and the value of each gauge and block, and whether it counts up."""
    for name, (owner, short) in record.gauge_owners().items():
        gauge = record.gauges[name]
        if gauge.count and short in _GAUGES and (owner or name in PROCESS_GAUGES):
            yield (owner or record.name, short), gauge.value, short in COUNTERS
    for component in record.components:
        root = record.trees[component]
        loop = root.children.get(MAIN_LOOP, root)
        most = _MOST_LEVELS.get(component.partition("_")[0], _MOST_LEVELS_OF_OTHERS)
        for path, node in _blocks(loop, most):
            yield (component, path, _SECONDS), node.statistics.total_ns / NS_PER_S, True
            yield (component, path, _PASSES), float(node.statistics.count), True


def _blocks(loop: TreeNode, most_levels: int) -> Iterator[tuple[str, TreeNode]]:
    stack = [(child, child.key, 1) for child in reversed(loop.children.values())]
    while stack:
        node, path, level = stack.pop()
        yield path, node
        if level < most_levels:
            stack.extend((child, f"{path}/{child.key}", level + 1) for child in reversed(node.children.values()))


def _rounded(column: array[float]) -> list[float | None]:
    return [float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None for value in column]
