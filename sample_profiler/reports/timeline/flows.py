"""Arrows of a timeline, from the points that processes have marked in their blocks."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import numpy as np

from sample_profiler.profiling.record.flows import END, REQUEST, SLOT, START, WEIGHTS, read_flow_point
from sample_profiler.reports.merged.chrome_trace import NS_PER_US

__all__ = ["FlowPoints"]

_NAMES = {REQUEST: "request", SLOT: "trajectory", WEIGHTS: "weights"}
_AT_ONCE = 1 << 16

_Place = tuple[int, int, int]
"""Process and track of the trace, and a moment in nanoseconds."""


class FlowPoints:
    """Collects points of all processes, 24 bytes each: a flow's next point may be in any of them."""

    def __init__(self) -> None:
        self._times_ns, self._numbers = array("q"), array("Q")
        self._pids, self._tids = array("I"), array("I")

    def add(self, time_ns: int, number: int, pid: int, tid: int) -> None:
        """Take a point.

        Args:
            time_ns: when, on the monotonic clock.
            number: what `flow_point` returned.
            pid: process of the trace.
            tid: track of the trace.
        """
        self._times_ns.append(time_ns)
        self._numbers.append(number)
        self._pids.append(pid)
        self._tids.append(tid)

    def arrows(self, zero_ns: int, arrow_numbers: Iterator[int]) -> Iterator[str]:
        """Yield the arrows of all chains of at least two points; a number that begins anew is another chain.

        Args:
            zero_ns: the moment that is 0.
            arrow_numbers: for one chain after the other.
        """
        chains: dict[tuple[int, int], list[_Place]] = {}
        for time_ns, number, pid, tid in self._in_order():
            point = read_flow_point(number)
            key = (point.kind, point.payload)
            if point.phase == START and key in chains:
                yield from _arrows(point.kind, chains.pop(key), arrow_numbers, zero_ns)
            chains.setdefault(key, []).append((pid, tid, time_ns))
            if point.phase == END:
                yield from _arrows(point.kind, chains.pop(key), arrow_numbers, zero_ns)
        for (kind, _), chain in chains.items():
            yield from _arrows(kind, chain, arrow_numbers, zero_ns)

    def _in_order(self) -> Iterator[tuple[int, int, int, int]]:
        columns = (
            np.frombuffer(self._times_ns, np.int64),
            np.frombuffer(self._numbers, np.uint64),
            np.frombuffer(self._pids, np.uintc),
            np.frombuffer(self._tids, np.uintc),
        )
        order = np.lexsort(columns[1::-1])
        for begin in range(0, len(order), _AT_ONCE):
            chosen = order[begin : begin + _AT_ONCE]
            yield from zip(*(column[chosen].tolist() for column in columns), strict=True)


def _arrows(kind: int, chain: Sequence[_Place], numbers: Iterator[int], zero_ns: int) -> Iterator[str]:
    if len(chain) < 2:
        return
    shared = f'"name":"{_NAMES.get(kind, f"flow {kind}")}","cat":"flow","id":{next(numbers)}'
    for index, (pid, tid, time_ns) in enumerate(chain):
        phase = '"s"' if index == 0 else '"f","bp":"e"' if index == len(chain) - 1 else '"t","bp":"e"'
        yield f'{{"ph":{phase},{shared},"pid":{pid},"tid":{tid},"ts":{(time_ns - zero_ns) / NS_PER_US}}}'
