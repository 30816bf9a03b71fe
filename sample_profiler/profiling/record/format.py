"""Where what is in a record file: its layout, for whoever writes or reads one. `_core.c` says the same in C.

A record file is what one process shows of itself to others while it runs, and leaves behind when it is killed: the
nodes of its trees, its gauges, and a ring of its latest blocks as events. All numbers are in the machine's own byte
order, which the header tells.

```
header    sizes, offsets and anchors, written once; and the counters that grow
slots     one per node of a tree; a tree is a root (parent -1, named after its component) and what hangs under it
gauges    one slot per gauge
strings   4 bytes of length, then UTF-8, padded to 4 bytes; a key is the offset of its string
metadata  a JSON object of strings
ring      events, the oldest overwritten by the newest: event number n lies at n modulo the number of events
```

What changes is kept so that a reader never sees half of it and a writer killed at any instruction leaves a whole value:
slots and gauges hold their figures twice, the copy in use is the sequence number modulo 2, and a writer fills the other
copy and then adds 1 to the number. Counters are published after what they count.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MAGIC = b"SPRECORD"
VERSION = 1
BYTE_ORDER = 0x01020304
NO_KEY = 0xFFFF_FFFF
NUM_BUCKETS = 720  # durations up to 2**48 ns, 78 hours; longer ones count in the last
NUM_RECENT = 32
NUM_THREAD_NAMES = 64
FLAG_PARALLEL = 1
KINDS = ("add_time", "timeit", "time_avg")

# magic, version, byte_order, header_size, slot_size, num_slots, num_buckets, gauge_size, num_gauge_slots, event_size,
# pid, slots_offset, gauges_offset, strings_offset, strings_size, metadata_offset, metadata_size, ring_offset,
# num_events, file_size, is_compiled, start anchors (monotonic, wall, boot, ns), end anchors (0 until closed),
# process_started_ns (monotonic)
HEADER_FIXED = struct.Struct("=8s10I10Q7q")
# num_nodes, strings_used, num_gauges, metadata_used, events_written, nodes_dropped, flushed_ns, is_closed, num_threads;
# then the key of each thread's name, thread 1 first
HEADER_LIVE = struct.Struct(f"=9Q{NUM_THREAD_NAMES}I")
HEADER_LIVE_OFFSET = HEADER_FIXED.size
HEADER_SIZE = 1024

# sequence, parent, key, kind, window, flags, title, (unused), started_ns, device_total_ns, device_count,
# device_unresolved
SLOT_HEAD = struct.Struct("=Qi3IQ2Iq3Q")
# count, total_ns, min_ns, max_ns, last_ns, last_end_ns, num_open, open_start_sum_ns, open_since_ns, open_thread
FIGURES = struct.Struct("=Q8qQ")
FIGURES_OFFSET = SLOT_HEAD.size
# num_recent, recent_ns (a ring as long as the window, or NUM_RECENT)
RECENT = struct.Struct(f"=Q{NUM_RECENT}q")
RECENT_OFFSET = FIGURES_OFFSET + 2 * FIGURES.size
HISTOGRAM = struct.Struct(f"={NUM_BUCKETS}Q")
HISTOGRAM_OFFSET = RECENT_OFFSET + RECENT.size
SLOT_SIZE = -(-(HISTOGRAM_OFFSET + HISTOGRAM.size) // 64) * 64

# sequence, key, (unused)
GAUGE_HEAD = struct.Struct("=Q2I")
# value, min, max, count, updated_ns (wall clock)
GAUGE_VALUES = struct.Struct("=3dQq")
GAUGE_VALUES_OFFSET = GAUGE_HEAD.size
GAUGE_SIZE = 128

# start_ns, end_ns, node, thread, flow. A point of a flow has the end FLOW_POINT, and lies in the block of that node.
EVENT = struct.Struct("=2q2IQ")
FLOW_POINT = 0

_NUM_GAUGES = 128
_STRINGS_BYTES = 1 << 16
_METADATA_BYTES = 1 << 14
_PAGE = 4096


@dataclass(frozen=True)
class RecordSizes:
    """Where the parts of a new record file lie; all numbers are bytes, or counts.

    Attributes:
        num_slots: room for nodes.
        num_gauges: room for gauges.
        num_events: length of the ring.
        slots_offset, gauges_offset, strings_offset, metadata_offset, ring_offset: where each part begins.
        strings_size, metadata_size: how long these are.
        file_size: of it all.
    """

    num_slots: int
    num_gauges: int
    num_events: int
    slots_offset: int
    gauges_offset: int
    strings_offset: int
    strings_size: int
    metadata_offset: int
    metadata_size: int
    ring_offset: int
    file_size: int

    @classmethod
    def of(cls, *, num_slots: int, ring_bytes: int, metadata_bytes: int) -> RecordSizes:
        """Lay out a file with room for so much."""
        gauges_offset = HEADER_SIZE + num_slots * SLOT_SIZE
        strings_offset = gauges_offset + _NUM_GAUGES * GAUGE_SIZE
        metadata_offset = strings_offset + _STRINGS_BYTES
        metadata_size = max(_METADATA_BYTES, -(-metadata_bytes // 8) * 8)
        # On a page of its own: writing events touches nothing else.
        ring_offset = -(-(metadata_offset + metadata_size) // _PAGE) * _PAGE
        num_events = ring_bytes // EVENT.size
        return cls(
            num_slots=num_slots,
            num_gauges=_NUM_GAUGES,
            num_events=num_events,
            slots_offset=HEADER_SIZE,
            gauges_offset=gauges_offset,
            strings_offset=strings_offset,
            strings_size=_STRINGS_BYTES,
            metadata_offset=metadata_offset,
            metadata_size=metadata_size,
            ring_offset=ring_offset,
            file_size=ring_offset + num_events * EVENT.size,
        )
