"""Which track each pass of a thread goes to, however many overlap: those on one track lie one inside the other."""

from __future__ import annotations

import heapq
import math

__all__ = ["MAX_LANES", "Lanes", "OpenPasses"]

MAX_LANES = 1024
"""Of one thread. The last takes all for which there is no other."""

_FEW = 8
_FEWEST_KEPT = 64


class Lanes:
    """The tracks of one thread. A pass goes to the first one where nothing is open, or what is open ends after it.

    The first few are tried one after another. A tree over those behind them, each node with the most room below it,
    finds that one in the logarithm of their number. Of the passes only those are kept that are still open.

    Attributes:
        num_used: tracks that have passes.
    """

    def __init__(self) -> None:
        self.num_used = 0
        self._few: list[list[int]] = []  # ends of the passes that are open on each, outer ones first
        self._others: list[list[int]] = []
        self._ends: list[tuple[int, int]] = []  # of all passes on others, and on which: a heap
        self._room: list[float] = []  # the tree: its leaves are the others; until one is needed there is none

    def place(self, start_ns: int, end_ns: int) -> int:
        """Return the number of the track for a pass; they come in the order of their starts, outer ones first."""
        for lane, open_ns in enumerate(self._few):
            while open_ns and open_ns[-1] <= start_ns:
                open_ns.pop()
            if not open_ns or end_ns <= open_ns[-1]:
                open_ns.append(end_ns)
                return lane
        lane = len(self._few)
        if lane < _FEW:
            self._few.append([end_ns])
        else:
            lane += self._place_behind(start_ns, end_ns)
        self.num_used = max(self.num_used, lane + 1)
        return lane

    def _place_behind(self, start_ns: int, end_ns: int) -> int:
        room = self._room = self._room or [math.inf] * (2 * MAX_LANES)
        while self._ends and self._ends[0][0] <= start_ns:
            _, other = heapq.heappop(self._ends)
            open_ns = self._others[other]
            open_ns.pop()  # inner ones have ended before
            self._set_room(other, open_ns[-1] if open_ns else math.inf)
        node = 1
        while node < MAX_LANES:
            node *= 2
            node += room[node] < end_ns
        other = node - MAX_LANES
        if other >= MAX_LANES - 1 - _FEW:
            return MAX_LANES - 1 - _FEW  # the last one: what is open there is no matter
        if other == len(self._others):
            self._others.append([])
        self._others[other].append(end_ns)
        heapq.heappush(self._ends, (end_ns, other))
        self._set_room(other, end_ns)
        return other

    def _set_room(self, other: int, room_ns: float) -> None:
        room, node = self._room, MAX_LANES + other
        room[node] = room_ns
        while node > 1:
            node //= 2
            most_ns = max(room[2 * node], room[2 * node + 1])
            if room[node] == most_ns:
                return
            room[node] = most_ns


class OpenPasses:
    """The passes of one block that may still be open, of which the one on the first track is asked for."""

    def __init__(self) -> None:
        self._passes: list[tuple[int, int]] = []  # track and end: a heap
        self._most = _FEWEST_KEPT

    def add(self, track: int, start_ns: int, end_ns: int) -> None:
        """Note a pass; they come in the order of their starts."""
        if len(self._passes) >= self._most:  # those that are over lie below one that is not
            self._passes = [one for one in self._passes if one[1] >= start_ns]
            heapq.heapify(self._passes)
            self._most = max(_FEWEST_KEPT, 2 * len(self._passes))
        heapq.heappush(self._passes, (track, end_ns))

    def first(self, time_ns: int) -> int | None:
        """Return the first track with a pass that holds a moment, no earlier one than before; None: there is none."""
        passes = self._passes
        while passes and passes[0][1] < time_ns:
            heapq.heappop(passes)
        return passes[0][0] if passes else None
