"""Reads what changes while it is read: the slots of nodes and gauges of a record file, each as one consistent copy.

A slot holds its figures twice, and a writer fills the copy that is not in use before it adds 1 to the sequence number.
So what was read is whole if the number is the same afterwards. A block in a loop around nothing changes its slot every
hundred nanoseconds, quicker than two system calls: then the two copies show by themselves whether they are whole, since
the one in use is the other one with one more pass, entered or left.
"""

from __future__ import annotations

import itertools
import os
import struct
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sample_profiler.profiling.record import format as layout
from sample_profiler.profiling.record.header import OpenRecord
from sample_profiler.profiling.tree.gauges import GaugeNode

__all__ = ["Figures", "Slot", "read_gauges", "read_slots"]

_NUM_QUICK_TRIES = 16
_NUM_TRIES = 256
_PATIENCE_S = 0.05  # all waits for a writer that was interrupted within a change, per file
_NAP_S = 0.001

_NUM_AT_ONCE = 8  # slots of 6 KiB: both readings of them stay in the caches
_WHOLE_SIZE = layout.HISTOGRAM_OFFSET + layout.HISTOGRAM.size
_BUCKETS = range(layout.NUM_BUCKETS)
_SEQUENCE = struct.Struct("=Q")


class Figures(NamedTuple):
    """What changes with a pass. The fields are those of `record_format.FIGURES`."""

    num_passes: int
    total_ns: int
    min_ns: int
    max_ns: int
    last_ns: int
    last_end_ns: int
    num_open: int
    open_start_sum_ns: int
    open_since_ns: int
    open_thread: int


class Slot(NamedTuple):
    """One node.

    Attributes:
        parent: index of its parent; -1: it is a root.
        key: of its name.
        kind: index into `record_format.KINDS`.
        window: of a ``time_avg``, else 0.
        flags: see `record_format`.
        title: key of a root's title.
        started_ns: of a root: since when it counts; 0: it does not.
        device: total in nanoseconds, passes, and passes that are not known yet.
        figures: of its passes.
        recent_ns: the latest passes of a ``time_avg``, oldest first.
        histogram: number of passes by bucket; empty where not asked for.
    """

    parent: int
    key: int
    kind: int
    window: int
    flags: int
    title: int
    started_ns: int
    device: list[int]
    figures: Figures
    recent_ns: list[int]
    histogram: dict[int, int]


def read_slots(record: OpenRecord, num_nodes: int, *, with_histograms: bool, is_changing: bool) -> Iterator[Slot]:
    """Yield the nodes of a file.

    Args:
        record: the file.
        num_nodes: how many.
        with_histograms: whether to read their histograms: nearly all of a slot's bytes.
        is_changing: whether there is a writer that may be in the middle of a change and will go on.
    """
    reader = _SlotReader(record, with_histograms, is_changing)
    if with_histograms:
        yield from map(reader.read, range(num_nodes))
        return
    for first in range(0, num_nodes, _NUM_AT_ONCE):
        yield from reader.read_several(first, min(_NUM_AT_ONCE, num_nodes - first))


class _SlotReader:
    def __init__(self, record: OpenRecord, with_histograms: bool, is_changing: bool) -> None:
        self._record = record
        self._with_histograms = with_histograms
        self._is_changing = is_changing
        self._patience_s = _PATIENCE_S
        self._size = _WHOLE_SIZE if with_histograms else layout.HISTOGRAM_OFFSET

    def read(self, index: int) -> Slot:
        """Return one slot."""
        header = self._record.header
        return self._make_slot(self._read_whole(header.slots_offset + index * header.slot_size), 0)

    def read_several(self, first: int, number: int) -> Iterator[Slot]:
        """Yield slots without histograms: two calls of the system for all of them, and more for those that change."""
        slot_size = self._record.header.slot_size
        begin = self._record.header.slots_offset + first * slot_size
        data = self._record.read(number * slot_size, begin)
        again = self._record.read(number * slot_size, begin)
        for offset in range(0, number * slot_size, slot_size):
            if data[offset : offset + 8] == again[offset : offset + 8]:
                yield self._make_slot(data, offset)
            else:
                yield self._make_slot(self._read_whole(begin + offset), 0)

    def _make_slot(self, data: bytes, offset: int) -> Slot:
        """Return the slot that is at an offset of what was read."""
        sequence, parent, key, kind, window, flags, title, _, started_ns, *device = layout.SLOT_HEAD.unpack_from(
            data, offset
        )
        figures = Figures._make(layout.FIGURES.unpack_from(data, offset + _figures_offset(sequence)))
        recent_ns = _recent_ns(data, offset, window, figures.num_passes) if window else []
        histogram: dict[int, int] = {}
        if self._with_histograms:
            buckets = layout.HISTOGRAM.unpack_from(data, offset + layout.HISTOGRAM_OFFSET)
            histogram = {bucket: buckets[bucket] for bucket in itertools.compress(_BUCKETS, buckets)}
        return Slot(parent, key, kind, window, flags, title, started_ns, device, figures, recent_ns, histogram)

    def _read_whole(self, offset: int) -> bytes:
        """Return the bytes of a slot of which the copy in use is whole, if there is a way."""
        descriptor, size = self._record.descriptor, self._size
        for attempt in range(_NUM_TRIES):
            data = os.pread(descriptor, size, offset)
            again = os.pread(descriptor, 8, offset)
            if len(data) != size:
                break
            is_still = data[:8] == again
            if is_still or (attempt >= _NUM_QUICK_TRIES and _shows_itself_whole(data)):
                if not self._with_histograms or _counts_agree(data):
                    return data
                if is_still and not self._wait():
                    return data  # the writer was stopped or killed between the two
        return self._record.read(size, offset) if len(data) != size else data

    def _wait(self) -> bool:
        if not self._is_changing or self._patience_s <= 0:
            return False
        self._patience_s -= _NAP_S
        time.sleep(_NAP_S)
        return True


def _figures_offset(sequence: int) -> int:
    return layout.FIGURES_OFFSET + (sequence & 1) * layout.FIGURES.size


def _counts_agree(data: bytes) -> bool:
    (sequence,) = _SEQUENCE.unpack_from(data)
    (num_passes,) = _SEQUENCE.unpack_from(data, _figures_offset(sequence))
    in_histogram: int = sum(layout.HISTOGRAM.unpack_from(data, layout.HISTOGRAM_OFFSET))
    return in_histogram == int(num_passes)


def _shows_itself_whole(data: bytes) -> bool:
    """Return whether the copy in use is the other one after one more entry or exit of one thread."""
    (sequence,) = _SEQUENCE.unpack_from(data)
    new = Figures._make(layout.FIGURES.unpack_from(data, _figures_offset(sequence)))
    old = Figures._make(layout.FIGURES.unpack_from(data, _figures_offset(sequence + 1)))
    if new.num_open == 1 and not new.last_end_ns <= new.open_since_ns == new.open_start_sum_ns:
        return False
    if new.num_open == 0 and new.open_start_sum_ns:
        return False
    if new.num_passes == old.num_passes:
        return new[1:6] == old[1:6] and new.num_open == old.num_open + 1
    return (
        new.num_passes == old.num_passes + 1
        and new.total_ns == old.total_ns + new.last_ns
        and new.last_end_ns >= old.last_end_ns
        and new.min_ns == (min(old.min_ns, new.last_ns) if old.num_passes else new.last_ns)
        and new.max_ns == max(old.max_ns, new.last_ns)
        and new.num_open in (old.num_open - 1, old.num_open)
    )


def _recent_ns(data: bytes, offset: int, window: int, count: int) -> list[int]:
    num_recent, *ring = layout.RECENT.unpack_from(data, offset + layout.RECENT_OFFSET)
    length = min(window, layout.NUM_RECENT)
    num_kept = min(num_recent, length, count)
    return [ring[number % length] for number in range(num_recent - num_kept, num_recent)]


def read_gauges(record: OpenRecord, num_gauges: int, strings: Mapping[int, str]) -> dict[str, GaugeNode]:
    """Return the gauges of a file by name.

    Raises:
        KeyError: one of them has no name.
    """
    header, size = record.header, layout.GAUGE_SIZE
    data = record.read(num_gauges * size, header.gauges_offset)
    again = record.read(num_gauges * size, header.gauges_offset)
    gauges: dict[str, GaugeNode] = {}
    for offset in range(0, num_gauges * size, size):
        slot, check = data[offset : offset + size], again[offset : offset + size]
        for _ in range(_NUM_TRIES):
            if slot[:8] == check[:8]:
                break
            slot = record.read(size, header.gauges_offset + offset)
            check = record.read(8, header.gauges_offset + offset)
        sequence, key, _ = layout.GAUGE_HEAD.unpack_from(slot)
        at = layout.GAUGE_VALUES_OFFSET + (sequence & 1) * layout.GAUGE_VALUES.size
        gauge = GaugeNode.__new__(GaugeNode)  # all its fields come from the file
        values = layout.GAUGE_VALUES.unpack_from(slot, at)
        gauge.value, gauge.min_value, gauge.max_value, gauge.count, gauge.updated_ns = values
        if gauge.count:
            gauges[strings[key]] = gauge
    return gauges
