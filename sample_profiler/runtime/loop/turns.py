"""Owns whose turn it is where several components share a process: the turn of one is a wait of all others for it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sample_profiler.profiling import Timing
from sample_profiler.profiling.recorder.pure import ClockNs
from sample_profiler.vocabulary import WAIT

__all__ = ["Turns"]


@dataclass
class _Member:
    """A component that waits for its turn.

    Attributes:
        timing: records its waits.
        idle_since_ns: when its last turn ended, or what was recorded of its waits since.
        seen_ns: by component, the turns of others up to then.
    """

    timing: Timing
    idle_since_ns: int
    seen_ns: dict[str, int]


class Turns:
    """Counts the turns of components, and records the turns of the others in each one's Timing as ``wait_<name>``.

    A wait is recorded when it is over, summed by whom it was for: that costs one or two blocks a turn, however many
    components there are. Within one wait, the turns of others are shown one after another in the order of their first
    turns.

    Args:
        clock_ns: the clock of the Timings; for tests.
    """

    def __init__(self, clock_ns: ClockNs = time.perf_counter_ns) -> None:
        self._clock_ns = clock_ns
        self._members: dict[str, _Member] = {}
        self._turns_ns: dict[str, int] = {}
        self._active = ""
        self._since_ns = 0

    def begin(self, name: str) -> None:
        """End the turn of whoever has it, and begin that of `name`, who need not have joined yet."""
        if name == self._active:
            return
        now_ns = self._clock_ns()
        self._end_turn(now_ns)
        self._active = name
        member = self._members.get(name)
        if member is not None:
            self._record_waits(name, member, now_ns)

    def join(self, name: str, timing: Timing) -> None:
        """Record the waits of `name`, whose turn it is, from now on."""
        self._members[name] = _Member(timing, self._since_ns, self._turns_ns.copy())

    def settle(self) -> None:
        """Record all waits up to now."""
        now_ns = self._clock_ns()
        active = self._active
        self._end_turn(now_ns)
        self._active = active
        for name, member in self._members.items():
            if name != active:
                self._record_waits(name, member, now_ns)
                member.idle_since_ns = now_ns

    def _end_turn(self, now_ns: int) -> None:
        if self._active:
            self._turns_ns[self._active] = self._turns_ns.get(self._active, 0) + now_ns - self._since_ns
            member = self._members.get(self._active)
            if member is not None:
                member.idle_since_ns = now_ns
        self._since_ns = now_ns

    def _record_waits(self, name: str, member: _Member, now_ns: int) -> None:
        begin_ns = member.idle_since_ns
        seen_ns = member.seen_ns
        for other, total_ns in self._turns_ns.items():
            waited_ns = total_ns - seen_ns.get(other, 0)
            if waited_ns and other != name:
                seen_ns[other] = total_ns
                member.timing.record(f"{WAIT}{other}", begin_ns, min(begin_ns + waited_ns, now_ns))
                begin_ns += waited_ns
