"""The recorder whose hot path is compiled (`_core.c`): its slow paths and its exact reads."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from sample_profiler.errors import TimingError
from sample_profiler.profiling.record.format import KINDS
from sample_profiler.profiling.record.thread_names import note_thread
from sample_profiler.profiling.recorder import _core
from sample_profiler.profiling.recorder.pure import ClockNs, renew_lock_after_fork
from sample_profiler.profiling.tree.kinds import ADD_TIME, TIMEIT, Kind, check_kind
from sample_profiler.profiling.tree.statistics import DeviceStatistics, Statistics
from sample_profiler.profiling.tree.tree import TreeNode

__all__ = ["CompiledRecorder"]

_CORE_VERSION = 6

if getattr(_core, "CORE_VERSION", None) != _CORE_VERSION:
    raise ImportError("the compiled recorder was built from other sources than these: install the package anew")

_core.set_up(ADD_TIME, TIMEIT, TimingError, note_thread)

_MOST_DEVICE = 2**62

# The clock that the core reads by itself is this one, on Linux.
_OWN_CLOCK = time.perf_counter_ns if sys.platform == "linux" else None


class CompiledRecorder(_core.Recorder):
    """Records blocks of all threads and tasks of this process into one tree.

    What was merged from elsewhere is added to what the core keeps of each node. Beside that is what it has no room for:
    windows that are joined, and numbers that are too large.

    Args:
        clock_ns: Returns integer nanoseconds that never go back.
        is_running: Whether the root counts from now on; otherwise from the first block, as for a loaded recording.
    """

    def __new__(cls, clock_ns: ClockNs, *, is_running: bool = True) -> CompiledRecorder:  # noqa: ARG004
        """Make the core's part."""
        new: CompiledRecorder = super().__new__(cls, None if clock_ns is _OWN_CLOCK else clock_ns)
        return new

    def __init__(self, clock_ns: ClockNs, *, is_running: bool = True) -> None:
        self.windows: dict[str, Kind] = {}
        self.lock = threading.RLock()
        self._beside: dict[int, TreeNode] = {}
        renew_lock_after_fork(self)
        if is_running:
            self.start_ns = clock_ns()

    def fast_methods(self, device_hook: Callable[[Any], Any]) -> dict[str, Any]:
        """Return what takes the place of a Timing's own methods, by name: a block then costs no call in Python.

        Args:
            device_hook: Makes a block that measures the device, too, of a block.
        """
        self.device_hook = device_hook
        return {"add_time": self.add_time, "timeit": self.timeit, "mark_flow": self.mark_flow}

    @property
    def start_ns(self) -> int | None:
        """When the root began; None: not yet."""
        return self.started_ns() or None

    @start_ns.setter
    def start_ns(self, start_ns: int) -> None:
        self.start_at(start_ns)

    def restart(self) -> None:
        """Begin anew with nothing recorded; open blocks end unrecorded. Keys keep their kinds, and slots in a file."""
        with self.lock:
            self.restart_nodes()
            self._beside.clear()

    def make_node(self, parent: int, key: str, kind: Kind) -> int:
        """Return the index of a node that is not there yet; the core calls this where it finds none of this kind.

        Raises:
            TimingError: The key is no string, or has another kind or window here.
        """
        with self.lock:
            self._check_kind(parent, key, kind)
            return self._find_or_add(parent, key, kind)

    def read(self) -> TreeNode:
        """Return everything recorded up to now as plain data; open blocks count with their open part."""
        with self.lock:
            now_ns = self.clock_ns()
            nodes: list[TreeNode] = []
            for index, row in enumerate(self.read_nodes(now_ns)):
                node = self._read_node(index, row)
                nodes.append(node)
                # Where nothing has been entered by this moment, nothing inside has been either.
                if index and node.statistics.count:
                    nodes[row[0]].children[node.key] = node
            root = nodes[0]
            if self.start_ns is not None:
                root.statistics.add([now_ns - self.start_ns], last_end_ns=now_ns)
            root.is_parallel |= bool(self.is_parallel)
            return root

    def adopt(self, tree: TreeNode, *, is_parallel: bool) -> None:
        """Add another recording, path by path.

        Args:
            tree: The other recording; it stays as it is.
            is_parallel: Whether the two ran beside each other, which marks what both have.

        Raises:
            TimingError: A key of one parent has two kinds or windows; then nothing is added.
        """
        with self.lock:
            self._check_kinds(tree)
            stack = [(tree, 0)]
            while stack:
                source, index = stack.pop()
                if source.is_parallel or (is_parallel and self._has_passes(index)):
                    self.mark_parallel(index)
                self._add_statistics(index, source.statistics)
                if source.device is not None:
                    self._add_device_statistics(index, source.device)
                for key, child in source.children.items():
                    stack.append((child, self._find_or_add(index, key, child.kind)))

    def add_device_statistics(self, path: tuple[str, ...], device: DeviceStatistics) -> None:
        """Add what an accelerator did for a block; of a block that is not there nothing is noted."""
        index = 0
        for key in path:
            index = self.find_child(index, key) if index >= 0 else -1
        if index >= 0:
            self.add_device(index, device.total_ns, device.count, device.num_unresolved)

    def _has_passes(self, index: int) -> bool:
        beside = self._beside.get(index)
        return self.describe_node(index)[2] or (beside is not None and beside.statistics.count > 0)

    def _add_statistics(self, index: int, of: Statistics) -> None:
        if not of.count:
            return
        if index == 0:  # in the file the root is the time since the start, which others' times are no part of
            self._node_beside(index).statistics.merge(of)
            return
        figures = (of.count, of.total_ns, of.min_ns, of.max_ns, of.last_ns, of.last_end_ns)
        try:
            self.add_to_node(index, *figures, of.recent_ns, of.histogram)
        except OverflowError:  # from a file: nobody measures this
            self._node_beside(index).statistics.merge(of)
        else:
            if of.recent_ns:
                self._node_beside(index).statistics.recent_ns += of.recent_ns

    def _add_device_statistics(self, index: int, device: DeviceStatistics) -> None:
        numbers = (device.total_ns, device.count, device.num_unresolved)
        if any(numbers) and all(0 <= number <= _MOST_DEVICE for number in numbers):
            self.add_device(index, *numbers)
        else:
            self._node_beside(index).add_device(device)

    def _node_beside(self, index: int) -> TreeNode:
        return self._beside.setdefault(index, TreeNode())

    def _find_or_add(self, parent: int, key: str, kind: Kind) -> int:
        index: int = self.find_child(parent, key)
        if index < 0:
            if kind.window is not None:
                self.windows[key] = kind
            index = self.add_node(parent, key, kind, KINDS.index(kind.method), kind.window or 0)
        return index

    def _check_kind(self, parent: int, key: str, kind: Kind) -> int:
        """Check a key below a node, or below nothing (-1); return its index, or -1."""
        index: int = self.find_child(parent, key) if parent >= 0 and isinstance(key, str) else -1
        path, existing = self.describe_node(index)[:2] if index >= 0 else ((), None)
        check_kind(key, kind, existing, "/".join(path), self.windows.get(key) if isinstance(key, str) else None)
        return index

    def _check_kinds(self, tree: TreeNode) -> None:
        stack = [(tree, 0)]
        while stack:
            source, index = stack.pop()
            for key, child in source.children.items():
                stack.append((child, self._check_kind(index, key, child.kind)))

    def _read_node(self, index: int, row: tuple[Any, ...]) -> TreeNode:
        _, key, kind, is_parallel, device, count, total, shortest, longest, last, last_end, recent, histogram = row
        node = TreeNode(key, kind or ADD_TIME)
        node.is_parallel = is_parallel
        if device[0] or device[2]:
            node.device = DeviceStatistics(*device)
        statistics = node.statistics
        statistics.count, statistics.total_ns = count, total
        statistics.min_ns, statistics.max_ns = shortest, longest
        statistics.last_ns, statistics.last_end_ns = last, last_end
        statistics.recent_ns, statistics.histogram = recent, histogram
        beside = self._beside.get(index)
        if beside is not None:
            node.add_device(beside.device)
            node.statistics = beside.statistics.copy()
            node.statistics.merge(statistics)
        return node
