"""Reads the ring of a record file: the latest blocks of a process as events, also while it goes on."""

from __future__ import annotations

import os

from sample_profiler.profiling.record import format as layout
from sample_profiler.profiling.record.events import Event, Events
from sample_profiler.profiling.record.header import OpenRecord

__all__ = ["EventFollower", "last_event", "read_events"]

_MOST_EVENTS = 1 << 25  # at once, a gibibyte: the latest ones; a ring may say any length, in a file with holes


def read_events(record: OpenRecord, begin: int, end: int) -> tuple[int, Events]:
    """Return events by number, without those that the writer may have overwritten before or meanwhile.

    Args:
        record: the file.
        begin: number of the first event.
        end: number after the last; has been written.

    Returns:
        The number of the first event returned, and the events.

    Raises:
        RecordError: the file has become shorter or was damaged.
    """
    num_events, size = record.header.num_events, layout.EVENT.size
    begin = max(begin, end - min(num_events, _MOST_EVENTS))
    data = bytearray()
    position = begin
    while position < end:
        index = position % num_events
        length = min(end - position, num_events - index)
        data += record.read(length * size, record.header.ring_offset + index * size)
        position += length
    # The next event may be half written already, and it takes the place of the oldest.
    overwritten = record.read_live().events_written - num_events + 1
    first = begin if end == begin else min(end, max(begin, overwritten))
    return first, Events(memoryview(data)[(first - begin) * size :])


def last_event(record: OpenRecord, events_written: int) -> Event | None:
    """Return the newest event; None if there is no ring or nothing in it."""
    num_events, size = record.header.num_events, layout.EVENT.size
    if not num_events or not events_written:
        return None
    offset = record.header.ring_offset + (events_written - 1) % num_events * size
    return Event._make(layout.EVENT.unpack(record.read(size, offset)))


class EventFollower:
    """Follows the events of a process: each poll returns those since the one before. A context manager.

    The first poll returns what the ring still has. The file stays open, so that the last events can be had after the
    process and its file are gone.

    Args:
        path: the record file.
        from_start: whether events that were overwritten before the follower came count as lost, too: of a process that
            has begun while others were followed. Of one that was there before they are none of its business.

    Attributes:
        num_lost: events that were overwritten before a poll came for them.
        record: the open file.

    Raises:
        RecordError: the file cannot be read, or is no whole record file of this version and byte order.
    """

    def __init__(self, path: str | os.PathLike[str], *, from_start: bool = False) -> None:
        self.num_lost = 0
        self.record = OpenRecord(path)
        self._next = 0
        # The oldest events of a full ring are overwritten while the first poll reads them: that is no gap.
        self._first_missed = 0 if from_start else self.record.read_live().events_written

    def __enter__(self) -> EventFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def has_ring(self) -> bool:
        """Whether the process keeps its latest blocks at all."""
        return self.record.header.num_events > 0

    def poll(self) -> Events:
        """Return the events since the last poll, in the order in which they were written (see `ProcessRecord.events`).

        Raises:
            RecordError: the file has become shorter or was damaged.
        """
        end = self.record.read_live().events_written
        if end <= self._next or not self.record.header.num_events:
            return Events()
        first, events = read_events(self.record, self._next, end)
        self.num_lost += max(0, first - max(self._next, self._first_missed))
        self._next = end
        return events

    def close(self) -> None:
        """Let go of the file."""
        self.record.close()
