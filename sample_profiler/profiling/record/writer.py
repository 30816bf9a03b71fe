"""The mapped memory of a record file, as its writer in Python sees it: header, slots, gauges, strings and ring.

Numbers that readers watch are stored whole, through views of 8 bytes each, and after what they stand for.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from sample_profiler.profiling.record import format as layout
from sample_profiler.profiling.record.process_record import Anchor
from sample_profiler.profiling.tree.gauges import GaugeNode
from sample_profiler.profiling.tree.tree import TreeNode

__all__ = ["RecordMemory"]

_LIVE = layout.HEADER_LIVE_OFFSET // 8
_NUM_NODES, _STRINGS_USED, _NUM_GAUGES, _METADATA_USED, _EVENTS_WRITTEN, _NODES_DROPPED = range(_LIVE, _LIVE + 6)
_FLUSHED_NS, _IS_CLOSED, _NUM_THREADS = range(_LIVE + 6, _LIVE + 9)
_THREAD_NAMES = (_LIVE + 9) * 2
_GAUGE_COPIES = (layout.GAUGE_VALUES_OFFSET, layout.GAUGE_VALUES_OFFSET + layout.GAUGE_VALUES.size)
_pack_gauge = layout.GAUGE_VALUES.pack_into
_END_ANCHORS = (layout.HEADER_FIXED.size - 4 * 8) // 8

# A page of a mapped file that is written to for the first time, or again after the kernel has saved it, is a fault
# amid whatever is measured: with what it does to caches 30 to 50 µs, 300 ns for each of the events in it. Many pages at
# once are 4 µs each. Linux has a call for that since 5.14, which Python has no name for.
_POPULATE_WRITE = 23 if sys.platform == "linux" else None
_LEAST_EVENTS_AHEAD = 8192


class _Gauge(GaugeNode):
    """A gauge, and where it is in the file; 0: nowhere, there is no room for it; None: it was not written yet."""

    __slots__ = ("offset",)

    def __init__(self, offset: int | None = None) -> None:
        super().__init__()
        self.offset = offset


class RecordMemory:
    """Writes to a mapped record file. Whoever writes does so between `begin` and `end`, so that one at a time does.

    Args:
        memory: the mapping, zeros at first.
        sizes: where everything is in it.
        add_string: what adds strings to the mapping in place of this object, where somebody else does, too.
    """

    def __init__(
        self,
        memory: mmap.mmap,
        sizes: layout.RecordSizes,
        add_string: Callable[[mmap.mmap, str], int] | None = None,
    ) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._is_busy = self._is_released = False
        self._add_string_elsewhere = add_string
        self._memory = memory
        self._sizes = sizes
        self._view = memoryview(memory)
        self._words = self._view.cast("Q")
        self._halves = self._view.cast("I")
        self._gauges: dict[str, _Gauge] = {}
        self._num_threads_named = 0
        self._num_events_seen = 0
        self._populate_write = _POPULATE_WRITE

    def begin(self) -> bool:
        """Let the current thread write until `end`; return False, without one, where it must not.

        That is so in a forked child, after `release`, and in a signal handler that came amid another write.
        """
        if os.getpid() != self._pid:  # before the lock: another thread of the parent may have held it
            return False
        self._lock.acquire()
        if self._is_busy or self._is_released:
            self._lock.release()
            return False
        self._is_busy = True
        return True

    def end(self) -> None:
        """Let others write."""
        self._is_busy = False
        self._lock.release()

    @property
    def num_slots(self) -> int:
        """How many nodes there is room for."""
        return self._sizes.num_slots

    @property
    def num_gauges(self) -> int:
        """How many gauges there is room for."""
        return self._sizes.num_gauges

    @property
    def num_events(self) -> int:
        """How many events the ring holds."""
        return self._sizes.num_events

    def write_header(self, anchor: Anchor, process_started_ns: int, *, is_compiled: bool, metadata: bytes) -> None:
        """Write what stays as it is, once, before anybody else sees the file."""
        sizes = self._sizes
        start = sizes.metadata_offset
        self._view[start : start + len(metadata)] = metadata
        self._words[_METADATA_USED] = len(metadata)
        layout.HEADER_FIXED.pack_into(
            self._memory,
            0,
            *(layout.MAGIC, layout.VERSION, layout.BYTE_ORDER, layout.HEADER_SIZE, layout.SLOT_SIZE, sizes.num_slots),
            *(layout.NUM_BUCKETS, layout.GAUGE_SIZE, sizes.num_gauges, layout.EVENT.size, os.getpid()),
            *(sizes.slots_offset, sizes.gauges_offset, sizes.strings_offset, sizes.strings_size),
            *(sizes.metadata_offset, sizes.metadata_size, sizes.ring_offset, sizes.num_events, sizes.file_size),
            *(is_compiled, *anchor, 0, 0, 0, process_started_ns),
        )

    def add_node(self, parent: int, name: str, title: str | None, kind: int, window: int, num_slots: int) -> int | None:
        """Take one of the first `num_slots` slots for a node; return its index, or None if there is no room for it."""
        index = self._words[_NUM_NODES]
        key = self._add_string(name) if index < num_slots else layout.NO_KEY
        if key == layout.NO_KEY:  # a block without its name would be taken for another
            self.count_dropped_node()
            return None
        title_key = layout.NO_KEY if title is None else self._add_string(title)
        head = (0, parent, key, kind, window, 0, title_key, 0, 0, 0, 0, 0)
        layout.SLOT_HEAD.pack_into(self._memory, self._slot(index), *head)
        self._words[_NUM_NODES] = index + 1
        return index

    def count_dropped_node(self) -> None:
        """Count a node that the file does not show."""
        self._words[_NODES_DROPPED] += 1

    @property
    def num_nodes_dropped(self) -> int:
        """How many nodes the file does not show."""
        return self._words[_NODES_DROPPED]

    def write_root(self, index: int, started_ns: int) -> None:
        """Write when a root began."""
        self._words[self._slot(index) // 8 + 5] = started_ns

    def end_root(self, name: str, ended_ns: int) -> None:
        """Let a root last until a moment, not until it is read; nobody else writes to it any more.

        Args:
            name: of the tree; of several with this name the latest is meant.
            ended_ns: on the clock of blocks.
        """
        for index in reversed(range(self._words[_NUM_NODES])):
            _, parent, key, *_ = head = layout.SLOT_HEAD.unpack_from(self._memory, self._slot(index))
            if parent < 0 and self._string(key) == name:
                duration_ns = max(0, ended_ns - head[8])
                self.write_root(index, 0)
                self.write_node(index, (1, *[duration_ns] * 4, ended_ns, 0, 0, 0, 0), {}, [], 0)
                return

    def write_tree(self, name: str, tree: TreeNode) -> None:
        """Write all figures of a tree that has slots, and that nobody else writes; blocks that are not in it get zeros.

        Args:
            name: of the tree.
            tree: what it is; several threads have recorded it.
        """
        nodes: dict[int, TreeNode] = {}
        for index in range(self._words[_NUM_NODES]):
            _, parent, key, *_ = layout.SLOT_HEAD.unpack_from(self._memory, self._slot(index))
            if parent < 0 and self._string(key) == name:
                nodes[index] = tree
            elif parent in nodes:
                nodes[index] = nodes[parent].children.get(self._string(key)) or TreeNode()
            else:
                continue
            of = nodes[index].statistics
            # From when to when its root lasted nobody can say: it is several.
            last_ns, last_end_ns = (of.last_ns, of.last_end_ns) if parent >= 0 else (0, 0)
            figures = (of.count, of.total_ns, of.min_ns, of.max_ns, last_ns, last_end_ns, 0, 0, 0, 0)
            self.write_node(index, figures, of.histogram, [], layout.FLAG_PARALLEL)

    def write_node(
        self, index: int, figures: Sequence[int], histogram: Mapping[int, int], recent_ns: Sequence[int], flags: int
    ) -> None:
        """Write all figures of a node.

        Args:
            index: of its slot.
            figures: the fields of `record_format.FIGURES`.
            histogram: passes by bucket.
            recent_ns: the latest passes, oldest first.
            flags: of the slot.
        """
        slot = self._slot(index)
        sequence = self._words[slot // 8]
        copy = slot + layout.FIGURES_OFFSET + (sequence + 1) % 2 * layout.FIGURES.size
        counts = [0] * layout.NUM_BUCKETS
        for bucket, count in histogram.items():
            counts[min(bucket, layout.NUM_BUCKETS - 1)] += count
        recent = [*recent_ns[-layout.NUM_RECENT :]]
        padding = [0] * (layout.NUM_RECENT - len(recent))
        layout.FIGURES.pack_into(self._memory, copy, *figures)
        layout.RECENT.pack_into(self._memory, slot + layout.RECENT_OFFSET, len(recent), *recent, *padding)
        # Copied, since pack_into() writes zeros first: a process that is killed then would leave these.
        histogram_start = slot + layout.HISTOGRAM_OFFSET
        self._view[histogram_start : histogram_start + layout.HISTOGRAM.size] = layout.HISTOGRAM.pack(*counts)
        self._words[slot // 8 + 3] = flags
        self._words[slot // 8] = sequence + 1

    def write_device(self, index: int, total_ns: int, count: int, num_unresolved: int) -> None:
        """Write what an accelerator did for a node."""
        slot = self._slot(index) // 8
        self._words[slot + 6], self._words[slot + 7], self._words[slot + 8] = total_ns, count, num_unresolved

    def set_gauge(self, name: str, number: float, set_ns: int) -> bool:
        """Set a gauge; return False for one that is left out, since there is no room for it.

        It may be called at any time. Code sets gauges in every step, so this does all at once what others do between
        `begin` and `end`.

        Args:
            name: of the gauge.
            number: is not NaN.
            set_ns: when, on the wall clock.
        """
        if os.getpid() != self._pid:
            return True
        with self._lock:
            gauge = self._gauges.get(name) or self._gauges.setdefault(name, _Gauge())
            gauge.add(number, set_ns)
            if self._is_busy or self._is_released:  # in a signal handler amid another write, the next flush writes it
                return True
            self._is_busy = True
            try:
                return self._write_gauge(name, gauge)
            finally:
                self._is_busy = False

    def merge_gauge(self, name: str, other: GaugeNode) -> bool:
        """Add to a gauge what somebody else has recorded; as `set_gauge`, but between `begin` and `end`."""
        gauge = self._gauges.setdefault(name, _Gauge())
        gauge.merge(other)
        return not gauge.count or self._write_gauge(name, gauge)

    def forget_gauges(self, names: Iterable[str]) -> None:
        """Begin anew with gauges when they are next set; until then the file has what they were."""
        for name in names:
            if name in self._gauges:
                self._gauges[name] = _Gauge(self._gauges[name].offset)

    def write_gauges(self) -> None:
        """Write what is not written yet of gauges."""
        for name, gauge in list(self._gauges.items()):
            if gauge.count:
                self._write_gauge(name, gauge)

    def _write_gauge(self, name: str, gauge: _Gauge) -> bool:
        offset = gauge.offset
        if offset is None:
            offset = gauge.offset = self._add_gauge(name)
        if not offset:
            return False
        sequence = self._words[offset // 8] + 1
        _pack_gauge(
            self._memory,
            offset + _GAUGE_COPIES[sequence & 1],
            gauge.value,
            gauge.min_value,
            gauge.max_value,
            gauge.count,
            gauge.updated_ns,
        )
        self._words[offset // 8] = sequence
        return True

    def write_event(self, start_ns: int, end_ns: int, node: int, thread: int, flow: int) -> None:
        """Put an event into the ring."""
        number = self._words[_EVENTS_WRITTEN]
        offset = self._sizes.ring_offset + number % self._sizes.num_events * layout.EVENT.size
        layout.EVENT.pack_into(self._memory, offset, start_ns, end_ns, node, thread, flow)
        self._words[_EVENTS_WRITTEN] = number + 1

    def prepare_ring(self) -> None:
        """Have the pages at hand that the next events go to: for twice as many as came since this was called last."""
        number, num_events = self._words[_EVENTS_WRITTEN], self._sizes.num_events
        ahead = min(num_events, max(_LEAST_EVENTS_AHEAD, 2 * (number - self._num_events_seen)))
        self._num_events_seen = number
        first = number % max(1, num_events)
        self._populate(first, min(num_events, first + ahead))
        self._populate(0, first + ahead - num_events)

    def _populate(self, first: int, end: int) -> None:
        if self._populate_write is None or end <= first:
            return
        start = self._sizes.ring_offset + first * layout.EVENT.size
        start -= start % mmap.PAGESIZE
        stop = self._sizes.ring_offset + end * layout.EVENT.size
        try:
            self._memory.madvise(self._populate_write, start, stop - start)
        except OSError:  # an older kernel: pages come one by one
            self._populate_write = None

    def write_thread_names(self, names: Mapping[int, str]) -> None:
        """Write the names of threads by number, from 1 on; there is room for so many."""
        while self._num_threads_named < layout.NUM_THREAD_NAMES:
            name = names.get(self._num_threads_named + 1)
            if name is None:
                break
            self._halves[_THREAD_NAMES + self._num_threads_named] = self._add_string(name)
            self._num_threads_named += 1
            self._words[_NUM_THREADS] = self._num_threads_named

    def mark_flushed(self, now_ns: int) -> None:
        """Write up to when everything is in the file."""
        self._words[_FLUSHED_NS] = now_ns

    def mark_closed(self, anchor: Anchor) -> None:
        """Write that nothing will be added."""
        for index, clock_ns in enumerate(anchor):
            self._words[_END_ANCHORS + index] = clock_ns
        self._words[_IS_CLOSED] = 1

    def release(self) -> None:
        """Let go of the mapping, so that it can be closed."""
        may_wait = os.getpid() == self._pid
        if may_wait:
            self._lock.acquire()
        self._is_released = True
        for view in (self._halves, self._words, self._view):
            view.release()
        if may_wait:
            self._lock.release()

    def _slot(self, index: int) -> int:
        return self._sizes.slots_offset + index * layout.SLOT_SIZE

    def _add_gauge(self, name: str) -> int:
        index = self._words[_NUM_GAUGES]
        if index >= self._sizes.num_gauges:
            return 0
        key = self._add_string(name)
        if key == layout.NO_KEY:
            return 0
        offset = self._sizes.gauges_offset + index * layout.GAUGE_SIZE
        layout.GAUGE_HEAD.pack_into(self._memory, offset, 0, key, 0)
        layout.GAUGE_VALUES.pack_into(self._memory, offset + layout.GAUGE_VALUES_OFFSET, 0, 0, 0, 0, 0)
        self._words[_NUM_GAUGES] = index + 1
        return offset

    def _string(self, key: int) -> str:
        start = self._sizes.strings_offset + key
        length = self._halves[start // 4]
        return str(self._view[start + 4 : start + 4 + length], "utf-8", "replace")

    def _add_string(self, string: str) -> int:
        if self._add_string_elsewhere is not None:
            return self._add_string_elsewhere(self._memory, string)
        text = string.encode("utf-8", "replace")
        used = self._words[_STRINGS_USED]
        size = -(-(4 + len(text)) // 4) * 4
        if used + size > self._sizes.strings_size:
            return layout.NO_KEY
        start = self._sizes.strings_offset + used
        self._halves[start // 4] = len(text)
        self._view[start + 4 : start + 4 + len(text)] = text
        self._words[_STRINGS_USED] = used + size
        return used
