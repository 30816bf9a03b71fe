"""Processes and tracks of a timeline: which component, which thread, and who may lie inside whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sample_profiler.component_id import BATCHER, INFERENCE_WORKER, LEARNER, ROLLOUT_WORKER, RUNNER, ComponentId
from sample_profiler.reports.merged.chrome_trace import NS_PER_US, named
from sample_profiler.reports.timeline.lanes import MAX_LANES, Lanes, OpenPasses

__all__ = ["MAX_THREAD", "TIMERS_OF_THREAD", "Tracks", "track_name"]

_ORDER = (RUNNER, ROLLOUT_WORKER, INFERENCE_WORKER, BATCHER, LEARNER)
MAX_THREAD = (1 << 14) - 1
"""The largest number that a thread of a process has."""
_CAPTURED = 1 << 24  # where the tracks of captures begin, behind those of all threads
TIMERS_OF_THREAD = 1 << 20
"""Added to the number of a thread: the tracks with its timers. They lie behind those of captures."""


class Tracks:
    """Numbers for processes and tracks of the trace.

    Args:
        zero_ns: the moment that is 0 in the trace, on the monotonic clock.

    Attributes:
        zero_ns: as given.
        processes: of the trace, by name: components, and what else has tracks.
    """

    def __init__(self, zero_ns: int) -> None:
        self.zero_ns = zero_ns
        self.processes: dict[str, int] = {}
        self._lanes: dict[tuple[int, int], Lanes] = {}
        self._open: dict[tuple[int, int, int], OpenPasses] = {}
        self._captured: dict[tuple[int, str], int] = {}

    def begin_process(self, name: str, rank: int | None = None) -> Iterator[dict[str, Any]]:
        """Number a process and name it, if there is none of this name.

        Args:
            name: of the process: its component.
            rank: where viewers show it; None: in the order of the way around.
        """
        if name in self.processes:
            return
        pid = self.processes[name] = len(self.processes) + 1
        kind = ComponentId.parse(name).kind
        yield named("process_name", pid, 0, name)
        if rank is None:
            rank = _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
        order = rank * 1000 + pid
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": order}}

    def place(self, pid: int, thread: int, start_ns: int, end_ns: int, node: int | None) -> tuple[int, bool]:
        """Return the track for a pass, and whether it is a new one; passes come in the order of their starts.

        Args:
            pid: of the process of the trace.
            thread: number of the thread.
            start_ns: when the pass began.
            end_ns: when it ended.
            node: of its block, if `holding` may be asked for that; else None.
        """
        lanes = self._lanes.get((pid, thread))
        if lanes is None:
            lanes = self._lanes[pid, thread] = Lanes()
        num_used = lanes.num_used
        track = thread * MAX_LANES + lanes.place(start_ns, end_ns)
        if node is not None:
            self._open.setdefault((pid, thread, node), OpenPasses()).add(track, start_ns, end_ns)
        return track, lanes.num_used > num_used

    def holding(self, pid: int, thread: int, time_ns: int, node: int) -> int | None:
        """Return the track of the pass of a block that holds a moment; of later ones nothing has been placed yet."""
        passes = self._open.get((pid, thread, node))
        return None if passes is None else passes.first(time_ns)

    def captured(self, pid: int, thread: str) -> tuple[int, bool]:
        """Return the track of a thread that a capture tells of, and whether it is a new one."""
        is_new = (pid, thread) not in self._captured
        return self._captured.setdefault((pid, thread), _CAPTURED + len(self._captured)), is_new

    def us(self, time_ns: int) -> float:
        """Return a moment in microseconds since the beginning, never before it."""
        return max(0, time_ns - self.zero_ns) / NS_PER_US


def track_name(thread_names: Mapping[int, str], tid: int) -> str:
    """Return the name of a track: that of its thread, and what tells it from that thread's other tracks.

    Args:
        thread_names: by number of the thread.
        tid: of the track.
    """
    thread, more = divmod(tid, MAX_LANES)
    number = thread & ~TIMERS_OF_THREAD
    name = thread_names.get(number, f"thread {number}") + (": timers" if thread & TIMERS_OF_THREAD else "")
    return f"{name} ({more + 1})" if more else name
