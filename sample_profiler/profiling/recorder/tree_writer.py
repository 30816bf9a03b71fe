"""How the recorder in pure Python shows what it has recorded: all at once, now and then."""

from __future__ import annotations

from sample_profiler.profiling.record.format import FLAG_PARALLEL, FLOW_POINT, KINDS
from sample_profiler.profiling.record.writer import RecordMemory
from sample_profiler.profiling.recorder.block import Block
from sample_profiler.profiling.recorder.nodes import Node
from sample_profiler.profiling.recorder.pure import Recorder
from sample_profiler.profiling.tree.statistics import DeviceStatistics, Statistics

__all__ = ["TreeWriter"]


class TreeWriter:
    """Writes one recorder's tree into a record file, and its passes into the ring as it folds them.

    Args:
        memory: of the file.
        recorder: what to write.
        component: the name of the tree.
        title: of it.
        num_slots: it takes none but the first ones of the file.
    """

    def __init__(self, memory: RecordMemory, recorder: Recorder, component: str, title: str, num_slots: int) -> None:
        self._memory = memory
        self._num_slots = num_slots
        self._recorder = recorder
        self._slots: dict[Node, int | None] = {recorder.root: None}
        self._written: dict[Node, tuple[int, ...]] = {}
        if memory.begin():
            try:
                self._slots[recorder.root] = memory.add_node(-1, component, title, 0, 0, num_slots)
            finally:
                memory.end()
        recorder.is_attached = True
        if memory.num_events:
            recorder.sink = self

    def detach(self) -> None:
        """Leave the file as it is; the recorder goes on without it."""
        self._recorder.is_attached = False
        self._recorder.sink = None

    def flush(self) -> None:
        """Write everything that has changed since the last time.

        Passes of other threads than the current one are in the figures at once, and in the ring when their thread next
        enters a block or has ended.
        """
        recorder = self._recorder
        with recorder.lock:
            recorder.fold_threads()
            if not self._memory.begin():
                return
            try:
                root = self._slots[recorder.root]
                if root is not None and recorder.start_ns is not None:
                    self._memory.write_root(root, recorder.start_ns)
                stack = [recorder.root]
                while stack:
                    node = stack.pop()
                    self._write(node)
                    stack.extend(node.children.values())
            finally:
                self._memory.end()

    def add_passes(self, node: Node, thread: int, blocks: list[Block]) -> None:
        """Put passes that are over into the ring."""
        if self._memory.begin():
            try:
                slot = self._slot_of(node)
                if slot is not None:
                    for block in blocks:
                        self._memory.write_event(block.start_ns, block.end_ns, slot, thread, 0)
            finally:
                self._memory.end()

    def add_flow_point(self, node: Node, thread: int, now_ns: int, number: int) -> None:
        """Put a point of a flow into the ring."""
        if self._memory.begin():
            try:
                slot = self._slot_of(node)
                if slot is not None:
                    self._memory.write_event(now_ns, FLOW_POINT, slot, thread, number)
            finally:
                self._memory.end()

    def _slot_of(self, node: Node) -> int | None:
        if node not in self._slots:
            assert node.parent is not None, "the root has its slot from the beginning"
            parent = self._slot_of(node.parent)
            kind, window = KINDS.index(node.kind.method), node.kind.window or 0
            if parent is None:
                self._slots[node] = None
                self._memory.count_dropped_node()
            else:
                self._slots[node] = self._memory.add_node(parent, node.key, None, kind, window, self._num_slots)
        return self._slots[node]

    def _write(self, node: Node) -> None:
        slot = self._slot_of(node)
        if slot is None:
            return
        statistics, open_blocks = node.read_closed()
        if node.parent is None:  # the time since the start, which those of merged Timings are no part of
            statistics = Statistics()
        device = node.device or DeviceStatistics()  # none after a restart
        self._memory.write_device(slot, device.total_ns, device.count, device.num_unresolved)
        starts_ns = [block.start_ns for block in open_blocks]
        # After a restart there may be as many passes as before.
        state = (statistics.count, statistics.total_ns, statistics.last_end_ns, sum(starts_ns))
        if self._written.get(node) == state:
            return
        self._written[node] = state
        thread = open_blocks[-1].tree.thread_number if open_blocks else 0
        figures = (
            *(statistics.count, statistics.total_ns, statistics.min_ns, statistics.max_ns),
            *(statistics.last_ns, statistics.last_end_ns),
            *(len(starts_ns), sum(starts_ns), min(starts_ns, default=0), thread),
        )
        recent_ns = node.kind.latest(statistics.recent_ns)
        flags = FLAG_PARALLEL if node.is_parallel or node.num_threads() > 1 else 0
        self._memory.write_node(slot, figures, statistics.histogram, recent_ns, flags)
