"""Writes record files byte by byte, also such as no recorder would leave; and, as a program, at full speed."""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import time
from pathlib import Path

from sample_profiler.profiling.record import format as layout
from sample_profiler.profiling.tree.statistics import bucket_index

S = 1_000_000_000


class RecordWriter:
    """Writes a record file with pwrite.

    Args:
        path: of the file.
        started_ns: start of the process and of its clocks.
        changes: of fields of the header, by index.
    """

    def __init__(
        self,
        path: Path,
        *,
        pid: int | None = None,
        num_slots=16,
        num_gauges=8,
        num_events=64,
        started_ns=5 * S,
        boot_ns: int | None = None,
        metadata=None,
        changes=None,
    ):
        boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if boot_ns is None else boot_ns
        metadata = {"process_name": "Test", "host": os.uname().nodename} if metadata is None else metadata
        text = json.dumps(metadata).encode() if isinstance(metadata, dict) else metadata
        offsets, end = [], layout.HEADER_SIZE
        for size in (num_slots * layout.SLOT_SIZE, num_gauges * layout.GAUGE_SIZE, 4096, 4096):
            offsets.append(end)
            end += size
        self.slots, self.gauges, self.strings, self.metadata = offsets
        self.ring, self.num_events = end, num_events
        end += num_events * layout.EVENT.size
        self.started_ns = started_ns
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.ftruncate(self.file, end)
        self.fixed = [
            *(layout.MAGIC, layout.VERSION, layout.BYTE_ORDER, layout.HEADER_SIZE, layout.SLOT_SIZE, num_slots),
            *(layout.NUM_BUCKETS, layout.GAUGE_SIZE, num_gauges, layout.EVENT.size, pid or os.getpid()),
            *(self.slots, self.gauges, self.strings, 4096, self.metadata, 4096, self.ring, num_events, end, 0),
            *(started_ns, 1_700_000_000 * S, boot_ns, 0, 0, 0, started_ns),
        ]
        for index, value in (changes or {}).items():
            self.fixed[index] = value
        self.live = [0] * 9
        self.threads: list[int] = []
        os.pwrite(self.file, text, self.metadata)
        self.live[3] = len(text)
        self.strings_used = 0
        self.num_nodes = self.num_gauges = self.events_written = 0
        self.sequences: dict[int, int] = {}
        self.write_header()

    def write_header(self):
        os.pwrite(self.file, layout.HEADER_FIXED.pack(*self.fixed), 0)
        self.write_live()

    def write_live(self):
        self.live[0:3] = self.num_nodes, self.strings_used, self.num_gauges
        self.live[4] = self.events_written
        self.live[8] = len(self.threads)
        keys = [*self.threads, *[0] * (layout.NUM_THREAD_NAMES - len(self.threads))]
        os.pwrite(self.file, layout.HEADER_LIVE.pack(*self.live, *keys), layout.HEADER_LIVE_OFFSET)

    def string(self, text: str) -> int:
        data = text.encode()
        offset = self.strings_used
        os.pwrite(self.file, len(data).to_bytes(4, sys.byteorder) + data, self.strings + offset)
        self.strings_used += (4 + len(data) + 3) // 4 * 4
        return offset

    def root(self, component: str, title="", started_ns: int | None = None, **figures) -> int:
        title = self.string(title) if title else layout.NO_KEY
        return self.node(-1, component, title=title, started_ns=started_ns or self.started_ns, **figures)

    def node(
        self,
        parent: int,
        key: str,
        *,
        kind=0,
        window=0,
        flags=0,
        title=layout.NO_KEY,
        started_ns=0,
        device=(0, 0, 0),
        **figures,
    ):
        index, self.num_nodes = self.num_nodes, self.num_nodes + 1
        head = layout.SLOT_HEAD.pack(0, parent, self.string(key), kind, window, flags, title, 0, started_ns, *device)
        os.pwrite(self.file, head, self.slot(index))
        self.set(index, **figures)
        self.write_live()
        return index

    def slot(self, index: int) -> int:
        return self.slots + index * layout.SLOT_SIZE

    def set(self, index: int, passes=(), last_end_ns=0, open_ns=(), thread=1, histogram=None, recent=()):
        """Write what a node holds: durations of its passes, starts of the open ones."""
        passes, open_ns = list(passes), list(open_ns)
        self.sequences[index] = sequence = self.sequences.get(index, 0) + 1
        figures = layout.FIGURES.pack(
            *(len(passes), sum(passes), min(passes, default=0), max(passes, default=0), passes[-1] if passes else 0),
            *(last_end_ns, len(open_ns), sum(open_ns), min(open_ns, default=0), thread),
        )
        buckets = [0] * layout.NUM_BUCKETS
        for duration in passes if histogram is None else histogram:
            buckets[bucket_index(duration)] += 1
        at = self.slot(index)
        os.pwrite(self.file, figures, at + layout.FIGURES_OFFSET + sequence % 2 * layout.FIGURES.size)
        os.pwrite(self.file, layout.HISTOGRAM.pack(*buckets), at + layout.HISTOGRAM_OFFSET)
        ring = [0] * layout.NUM_RECENT
        for number, duration in enumerate(recent):
            ring[number % min(layout.NUM_RECENT, 3)] = duration  # of a window of 3
        os.pwrite(self.file, layout.RECENT.pack(len(recent), *ring), at + layout.RECENT_OFFSET)
        os.pwrite(self.file, sequence.to_bytes(8, sys.byteorder), at)

    def gauge(self, name: str, value: float, low=0.0, high=9.0, count=3, updated_ns=7):
        at = self.gauges + self.num_gauges * layout.GAUGE_SIZE
        os.pwrite(self.file, layout.GAUGE_HEAD.pack(1, self.string(name), 0), at)
        values = layout.GAUGE_VALUES.pack(value, low, high, count, updated_ns)
        os.pwrite(self.file, values, at + layout.GAUGE_VALUES_OFFSET + layout.GAUGE_VALUES.size)
        self.num_gauges += 1
        self.write_live()

    def event(self, start_ns: int, end_ns: int, node=1, thread=1, flow=0):
        offset = self.ring + self.events_written % self.num_events * layout.EVENT.size
        os.pwrite(self.file, layout.EVENT.pack(start_ns, end_ns, node, thread, flow), offset)
        self.events_written += 1
        self.write_live()

    def close(self, end_ns: int | None = None):
        """Let go of the file; mark it as whole if there is an end."""
        if end_ns is not None:
            self.fixed[-4:-1] = end_ns, 1_700_000_000 * S + end_ns - self.started_ns, 9
            self.live[7] = 1
            self.write_header()
        os.close(self.file)


def find_dead_pid() -> int:
    """Return the number of a process that has ended."""
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


PASS_NS = 1000


def write_at_full_speed(path: Path) -> None:
    """Enter and leave one block for ever, as quickly as Python can; each pass takes `PASS_NS`."""
    writer = RecordWriter(path)
    writer.root("A")
    writer.node(0, "work")
    with mmap.mmap(writer.file, 0) as memory:
        at = writer.slot(1)
        write, publish = struct.Struct("=Q8qQ").pack_into, struct.Struct("=Q").pack_into
        bucket_at = at + layout.HISTOGRAM_OFFSET + 8 * bucket_index(PASS_NS)
        sequence, num_passes, now_ns = 1, 0, 6 * S
        copies = [at + layout.FIGURES_OFFSET, at + layout.FIGURES_OFFSET + layout.FIGURES.size]
        while True:
            now_ns += 10
            total_ns = PASS_NS * num_passes
            write(
                memory, copies[(sequence + 1) % 2], num_passes, total_ns, *_EXTREMES, now_ns - 10, 1, now_ns, now_ns, 1
            )
            publish(memory, at, sequence + 1)
            num_passes += 1
            now_ns += PASS_NS
            write(memory, copies[sequence % 2], num_passes, total_ns + PASS_NS, *_EXTREMES, now_ns, 0, 0, 0, 1)
            publish(memory, bucket_at, num_passes)
            sequence += 2
            publish(memory, at, sequence)


_EXTREMES = (PASS_NS, PASS_NS, PASS_NS)

if __name__ == "__main__":
    write_at_full_speed(Path(sys.argv[1]))
