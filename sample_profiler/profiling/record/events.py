"""Events: the passes of blocks and the points of flows that a process kept, packed as in its ring.

An event takes 32 bytes, not the 200 of an object: a session may have millions.
"""

from __future__ import annotations

import itertools
import operator
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

from sample_profiler.profiling.record.format import EVENT, FLOW_POINT

__all__ = ["Event", "Events"]

# Where the fields of an event are, in 8-byte and in 4-byte words (see `record_format.EVENT`).
_START, _END, _FLOW, _WORDS = 0, 1, 3, 4
_NODE, _THREAD, _HALF_WORDS = 4, 5, 8


class Event(NamedTuple):
    """A pass of a block that is over, or a point of a flow.

    Attributes:
        start_ns: when it began, on the monotonic clock.
        end_ns: when it ended; `FLOW_POINT` for a point of a flow.
        node: its block, an index into `ProcessRecord.paths`; of a flow point the block that it lies in.
        thread: number of the thread, from 1 on.
        flow: the number of a flow point (see `flows`), else 0.
    """

    start_ns: int
    end_ns: int
    node: int
    thread: int
    flow: int

    @property
    def is_flow_point(self) -> bool:
        """Whether this is a point of a flow, not a pass."""
        return self.end_ns == FLOW_POINT


class Events(Sequence[Event]):
    """A sequence of events that makes each `Event` when it is asked for.

    Args:
        data: the events, one after another, as `record_format.EVENT` packs them; is kept, not copied.

    Raises:
        ValueError: the data end within an event.
    """

    def __init__(self, data: bytes | bytearray | memoryview = b"") -> None:
        if len(data) % EVENT.size:
            raise ValueError(f"events have {EVENT.size} bytes each; {len(data)} bytes are no whole number of them")
        self.data = memoryview(data)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Events:
        """Return events packed; those that are stay as they are."""
        return events if isinstance(events, cls) else cls(b"".join(EVENT.pack(*event) for event in events))

    @classmethod
    def from_columns(
        cls, starts: array[int], durations: array[int], nodes: array[int], threads: array[int], flows: array[int]
    ) -> Events:
        """Return what `columns` took apart.

        Raises:
            OverflowError: a moment does not fit into 64 bits.
        """
        starts = array("q", itertools.accumulate(starts))
        pairs = zip(starts, durations, strict=True)
        ends = array("q", (FLOW_POINT if span < 0 else start + span for start, span in pairs))
        data = memoryview(bytearray(len(starts) * EVENT.size))
        data.cast("q")[_START::_WORDS] = memoryview(starts)
        data.cast("q")[_END::_WORDS] = memoryview(ends)
        data.cast("I")[_NODE::_HALF_WORDS] = memoryview(nodes)
        data.cast("I")[_THREAD::_HALF_WORDS] = memoryview(threads)
        data.cast("Q")[_FLOW::_WORDS] = memoryview(flows)
        return cls(data)

    def extremes(self) -> tuple[int, int, int]:
        """Return the earliest start, the earliest end (`FLOW_POINT` if there are points of flows) and the last node."""
        if not self.data:
            return 0, 0, 0
        starts, ends = self._column("q", _START, _WORDS), self._column("q", _END, _WORDS)
        return min(starts), min(ends), max(self._column("I", _NODE, _HALF_WORDS))

    def columns(self) -> tuple[array[int], array[int], array[int], array[int], array[int]]:
        """Return starts, each less the one before; durations, -1 of flow points; nodes; threads; flows."""
        starts, ends = self._column("q", _START, _WORDS), self._column("q", _END, _WORDS)
        durations = map(max, map(operator.sub, ends, starts), itertools.repeat(-1))  # nothing ends before it begins
        return (
            array("q", map(operator.sub, starts, itertools.chain((0,), starts))),
            array("q", durations),
            self._column("I", _NODE, _HALF_WORDS),
            self._column("I", _THREAD, _HALF_WORDS),
            self._column("Q", _FLOW, _WORDS),
        )

    def moved(self, by_ns: int) -> Events:
        """Return the same at other moments."""
        if not by_ns or not self.data:
            return self
        starts, *others = self.columns()
        starts[0] += by_ns  # all others count from there
        return Events.from_columns(starts, *others)

    def latest_ns(self) -> int:
        """Return the latest moment there is in them; 0 if there are none."""
        words = self.data.cast("B").cast("q")
        return max(max(words[_START::_WORDS], default=0), max(words[_END::_WORDS], default=0))

    def since(self, time_ns: int) -> Events:
        """Return those that had not ended before a moment."""
        latest = list(map(max, self._column("q", _START, _WORDS), self._column("q", _END, _WORDS)))
        if min(latest, default=time_ns) >= time_ns:
            return self
        kept = bytearray()
        begin = 0
        # Nearly always a piece is wanted: they are copied in runs.
        for index, moment_ns in enumerate(latest):
            if moment_ns < time_ns:
                kept += self.data[begin * EVENT.size : index * EVENT.size]
                begin = index + 1
        return Events(kept + self.data[begin * EVENT.size :])

    def _column(self, code: str, first: int, stride: int) -> array[int]:
        return array(code, self.data.cast("B").cast(code)[first::stride].tobytes())  # type: ignore[call-overload]

    def __len__(self) -> int:
        return len(self.data) // EVENT.size

    def __iter__(self) -> Iterator[Event]:
        return map(Event._make, EVENT.iter_unpack(self.data))

    @overload
    def __getitem__(self, index: int) -> Event: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...

    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = operator.index(index)
        position += len(self) if position < 0 else 0
        if not 0 <= position < len(self):
            raise IndexError(f"there are {len(self)} events; {index} is none of them")
        return Event._make(EVENT.unpack_from(self.data, position * EVENT.size))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return f"<{len(self)} events>"
