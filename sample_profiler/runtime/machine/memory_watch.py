"""Owns what is remembered of the memory of a run's processes, to tell why one has ended for want of it."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sample_profiler.profiling.process.control_groups import ControlGroup, groups_of
from sample_profiler.runtime.machine.memory_limits import (
    MemoryLimit,
    ProcessMemory,
    count_kills,
    find_limit,
    read_process_memory,
)

__all__ = ["LackOfMemory", "MemoryUse", "MemoryWatch"]

_MOST_SAMPLES = 64
_MOST_COUNTS = 16
_NUM_LATEST = 3
_DYING_S = 1.0  # that somebody may be seen alive whom the kernel has counted
_SAME_MOMENT_S = 5.0
_LAST_WORDS_S = 8.0  # that somebody may need to notice that a game is gone, and to tell it
_SETTLED_S = 30.0
_BEGUN_SHARE = 0.05
_NEAR_SHARE = 0.1
_NEAR_BYTES = 128 << 20


@dataclass(frozen=True)
class MemoryUse:
    """What a process had, and how it came to that.

    Attributes:
        name: of its component.
        num_bytes: resident, with what it has started.
        started_bytes: the part of what it has started: games, simulators.
        before_bytes: before it grew.
        grown_s: for how long it has grown.
        recent_bytes: by how much it has grown since it had started up.
    """

    name: str
    num_bytes: int
    started_bytes: int
    before_bytes: int
    grown_s: float
    recent_bytes: int


@dataclass(frozen=True)
class LackOfMemory:
    """There was not enough memory for a process.

    Attributes:
        by_kernel: whether the kernel has ended it for that; else it was at a limit of its own.
        lost: what the process had.
        limit: that was reached.
        others: what the other processes of the run had, the largest first.
    """

    by_kernel: bool
    lost: MemoryUse
    limit: MemoryLimit
    others: tuple[MemoryUse, ...]


@dataclass
class _Course:
    """The memory of a process over time; of times long past, less and less often."""

    name: str
    begin_s: float
    samples: list[tuple[float, int]] = field(default_factory=list)
    settled: int | None = None
    memory: ProcessMemory = field(default_factory=lambda: ProcessMemory(0))
    started_bytes: int = 0
    groups: Sequence[ControlGroup] = ()
    seen_s: float = 0.0
    end_s: float | None = None
    most_bytes: int = 0

    def note(self, now_s: float, memory: ProcessMemory, started_bytes: int) -> None:
        self.memory, self.started_bytes, self.seen_s = memory, started_bytes, now_s
        total = memory.resident + started_bytes
        self.samples.append((now_s, total))
        if len(self.samples) > _MOST_SAMPLES:
            self.samples = self.samples[: _MOST_SAMPLES // 2 : 2] + self.samples[_MOST_SAMPLES // 2 :]
        if self.settled is None and now_s - self.begin_s >= _SETTLED_S:
            self.settled = total

    def is_of_interest(self, now_s: float) -> bool:
        """Tell whether it goes on, or ended just now: whoever ends next may have lacked what this one had."""
        return self.end_s is None or now_s - self.end_s < _SAME_MOMENT_S

    def use(self, now_s: float) -> MemoryUse:
        """Return what it has now or, if it has ended, had at most."""
        latest = [total for _, total in self.samples[-_NUM_LATEST:]]  # what failed may have let go of some already
        num_bytes = max(self.most_bytes + self.started_bytes, 0, *latest)
        least = min((total for _, total in self.samples), default=num_bytes)
        begun = least + _BEGUN_SHARE * (num_bytes - least)
        before = [(at_s, total) for at_s, total in self.samples if total <= begun]
        at_s, before_bytes = before[-1] if before else (now_s, num_bytes)
        base = self.settled if self.settled is not None else least
        return MemoryUse(self.name, num_bytes, self.started_bytes, before_bytes, now_s - at_s, num_bytes - base)


class MemoryWatch:
    """Looks at the memory of processes now and then, and tells why one of them has ended.

    A look takes ten microseconds for each process. What happens between two looks is in the kernel's counters, and in
    what a process had at most, which is known when it has ended.

    Args:
        clock_s: returns seconds that never go back; for tests.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._courses: dict[int, _Course] = {}
        self._before_bytes: dict[str, int] = {}
        self._kills: deque[tuple[float, dict[Path, int]]] = deque(maxlen=_MOST_COUNTS)
        self._explained: Counter[Path] = Counter()

    def begin(self, pid: int, name: str) -> None:
        """Expect a process that was just started by this one, in whose groups it is."""
        now_s = self._clock_s()
        course = self._courses[pid] = _Course(name, now_s, groups=groups_of("memory"), seen_s=now_s)
        if (before_bytes := self._before_bytes.get(name)) is not None:
            # It begins as its predecessor did, and may have grown before anybody looks at it.
            course.samples.append((now_s, before_bytes))
        self._count(now_s, course.groups)

    def look(self, processes: Mapping[int, str], started: Mapping[int, Iterable[int]]) -> None:
        """Remember what processes have.

        Args:
            processes: names of living ones, by their numbers.
            started: numbers of what each has started.
        """
        now_s = self._clock_s()
        self._courses = {pid: course for pid, course in self._courses.items() if course.is_of_interest(now_s)}
        groups = {pid: groups_of("memory", pid) for pid in processes}
        self._count(now_s, set().union(*groups.values()))
        for pid, name in processes.items():
            memory = read_process_memory(pid)
            if memory is None:
                continue
            course = self._courses.setdefault(pid, _Course(name, now_s))
            course.groups = groups[pid]
            found = filter(None, map(read_process_memory, started.get(pid, ())))
            course.note(now_s, memory, sum(each.resident for each in found))

    def note_end(self, pid: int, most_bytes: int) -> None:
        """Remember that a process has ended, and what was resident at most; 0: not known."""
        if (course := self._courses.get(pid)) is not None and course.end_s is None:
            course.end_s, course.most_bytes = self._clock_s(), most_bytes
            self._before_bytes[course.name] = course.use(course.end_s).before_bytes

    def has_new_kills(self, pid: int) -> bool:
        """Tell whether the kernel has ended somebody for want of memory about when this process was seen alive last."""
        course = self._courses.get(pid)
        return course is not None and bool(self._new_kills(course, _DYING_S))

    def explain_end(self, pid: int, *, was_killed: bool) -> LackOfMemory | None:
        """Return what a process that has ended lacked; None: nothing tells that it lacked memory.

        Args:
            pid: its number.
            was_killed: by SIGKILL, and by nobody who is known; else it ended in another way.
        """
        course = self._courses.get(pid)
        if course is None:
            return None
        if not was_killed:
            return self._lack_at_own_limit(course)
        return self._explain_kill(course, _DYING_S)

    def explain_refusal(self, pid: int, *, was_refused: bool) -> LackOfMemory | None:
        """Return what a process lacks that has failed; None: nothing tells that it lacks memory.

        Args:
            pid: its number.
            was_refused: whether it was refused memory; else the kernel may have ended what it had started, or something
                may have made another error of a refusal.
        """
        course = self._courses.get(pid)
        if course is None:
            return None
        if was_refused:
            limits = course.memory.limits or (find_limit(course.groups),)
            limit = max(limits, key=lambda limit: limit.used / limit.num_bytes)
            return self._lack(course, limit, by_kernel=False)
        return self._explain_kill(course, _LAST_WORDS_S) or self._lack_at_own_limit(course)

    def _explain_kill(self, course: _Course, earlier_s: float) -> LackOfMemory | None:
        new = self._new_kills(course, earlier_s)
        for path, before in new.items():
            self._explained[path] += 1
            for _, counts in self._kills:
                if counts.get(path, 0) > before:  # it is among them
                    counts[path] -= 1
        return self._lack(course, find_limit(course.groups), by_kernel=True) if new else None

    def _lack_at_own_limit(self, course: _Course) -> LackOfMemory | None:
        grown_bytes = max(0, course.most_bytes - course.memory.resident)  # since the latest look
        for limit in course.memory.limits:
            left_bytes = limit.num_bytes - limit.used - grown_bytes
            if left_bytes <= max(_NEAR_BYTES, _NEAR_SHARE * limit.num_bytes):
                return self._lack(course, limit, by_kernel=False)
        return None

    def _lack(self, course: _Course, limit: MemoryLimit, *, by_kernel: bool) -> LackOfMemory:
        now_s = self._clock_s()
        # Of one whose place was taken just now it is the successor that counts.
        uses = {each.name: each.use(now_s) for each in self._courses.values() if each.name != course.name}
        others = sorted(uses.values(), key=lambda use: -use.num_bytes)
        return LackOfMemory(by_kernel, course.use(now_s), limit, tuple(others))

    def _new_kills(self, course: _Course, earlier_s: float) -> dict[Path, int]:
        """Return who has counted kills that explain nothing yet since some time before the latest look, and from where.

        Whom the kernel has counted may be seen alive for a moment, and it takes a while to tell that a game is gone.
        """
        earlier = [counts for at_s, counts in self._kills if at_s <= course.seen_s - earlier_s]
        before = earlier[-1] if earlier else self._kills[0][1]
        now = self._unexplained(course.groups)
        return {path: before[path] for path in before.keys() & now.keys() if now[path] > before[path]}

    def _count(self, now_s: float, groups: Iterable[ControlGroup]) -> None:
        if not self._kills or now_s >= self._kills[-1][0] + _DYING_S:
            self._kills.append((now_s, self._unexplained(groups)))

    def _unexplained(self, groups: Iterable[ControlGroup]) -> dict[Path, int]:
        return {path: count - self._explained[path] for path, count in count_kills(groups).items()}
