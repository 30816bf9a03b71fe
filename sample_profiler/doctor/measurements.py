"""Owns the figures of an examination: how long calls take, and what of that is computing; how memory grows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import FileIO

import numpy as np
import numpy.typing as npt

__all__ = ["CallTimes", "Growth", "Measurements", "Stopwatch", "TimeSummary", "growth_of"]

_MOST_CALLS = 200_000
_NUM_PARTS = 8


@dataclass(frozen=True)
class TimeSummary:
    """How long the calls of one method took; times in nanoseconds.

    Attributes:
        num_calls: that were measured.
        mean_ns: of all.
        percentiles_ns: p50, p99 and p99.9.
        largest_ns: of all.
        tail_share: of all time, what the slowest 1 % took, and the slowest 0.1 %.
        num_slow: calls that took ten times as long as half of them, and half a millisecond longer.
        slow_share: of all time, what these took.
        slow_mean_ns: of these.
        is_slow_throughout: whether there were such in the first and in the second half alike.
        cpu_share: what of the time the calling thread ran.
        wait_share: what of it the thread was ready, and had no processor.
        medians_ns: of each of some parts of them in turn, without the first part; as if the machine had been equally
            fast in all of them.
    """

    num_calls: int
    mean_ns: float
    percentiles_ns: tuple[float, float, float]
    largest_ns: float
    tail_share: tuple[float, float]
    num_slow: int
    slow_share: float
    slow_mean_ns: float
    is_slow_throughout: bool
    cpu_share: float
    wait_share: float
    medians_ns: tuple[float, ...] = ()

    @property
    def asleep_share(self) -> float:
        """What of the time the thread could not have gone on."""
        return max(0.0, 1.0 - self.cpu_share - self.wait_share)

    @property
    def total_ns(self) -> float:
        """What all of them took."""
        return self.mean_ns * self.num_calls


@dataclass(frozen=True)
class Growth:
    """What became more in the course of an examination.

    Attributes:
        per_step: so much of it.
        num_steps: that this rests on.
        share_of_rises: of the stretches between two looks, those in which it rose.
    """

    per_step: float
    num_steps: int
    share_of_rises: float

    @property
    def total(self) -> float:
        """What became more in all of the steps."""
        return self.per_step * self.num_steps


@dataclass
class Measurements:
    """What was measured of an environment.

    Attributes:
        steps: their times; None: there were none.
        resets: likewise.
        constructor_ns: how long it took.
        close_ns: how long it took.
        num_steps: taken in all.
        num_episodes: that ended.
        memory_bytes: growth of the memory of its process and of those that it started.
        objects: growth of the number of Python's blocks of memory.
        memory_per_reset_bytes: growth while it was reset again and again.
        belongings_per_reset: likewise, of the number of its files, threads and processes.
        info_bytes: of an info, on average.
        lengths: of episodes, in steps; the first thousand.
        returns: of episodes, of all agents together; the first thousand.
        rewards: lowest and highest, and the mean of their size.
        num_threads: that it had, beyond those of before.
        num_processes: that it had started.
        other_cpu_share: processor time of its other threads, of the time of the steps.
        children_cpu_share: that of processes that it started.
        num_stale_resets: that showed what the episode before had ended with, and not what it had begun with.
        has_moved: whether an observation ever differed from the first one.
    """

    steps: TimeSummary | None = None
    resets: TimeSummary | None = None
    constructor_ns: int = 0
    close_ns: int = 0
    num_steps: int = 0
    num_episodes: int = 0
    memory_bytes: Growth | None = None
    objects: Growth | None = None
    memory_per_reset_bytes: Growth | None = None
    belongings_per_reset: dict[str, Growth | None] = field(default_factory=dict)
    info_bytes: float = 0.0
    lengths: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    rewards: tuple[float, float, float] | None = None
    num_threads: int = 0
    num_processes: int = 0
    other_cpu_share: float = 0.0
    children_cpu_share: float = 0.0
    num_stale_resets: int = 0
    has_moved: bool = True


class CallTimes:
    """Collects the times of calls in memory that does not grow meanwhile."""

    def __init__(self) -> None:
        self._times = np.zeros((3, _MOST_CALLS), np.int64)
        self._num = 0

    def add(self, wall_ns: int, cpu_ns: int, delay_ns: int) -> None:
        """Note one call: how long it took, what of that its thread ran, and what of it it waited for a processor."""
        if self._num < _MOST_CALLS:
            self._times[:, self._num] = wall_ns, cpu_ns, delay_ns
            self._num += 1

    def summary(self, num_warm: int, yardstick: CallTimes | None = None) -> TimeSummary | None:
        """Return what they were like, without the first few; None: there are not more.

        Args:
            num_warm: of the first ones that are left out, in which code and data are loaded.
            yardstick: times of a piece of work that is always the same, done once beside each call.
        """
        wall, cpu, delay = self._after(num_warm)
        if not len(wall) or not wall.sum():
            return None
        own = _without(delay, wall)
        medians = _medians_of_parts(own)
        if yardstick is not None:  # a machine that computes more slowly meanwhile is not the environment's doing
            wall_of_pace, _, delay_of_pace = yardstick._after(num_warm)
            pace = _medians_of_parts(_without(delay_of_pace, wall_of_pace))
            medians += _medians_of_parts(np.minimum(cpu, own)) * (pace.mean() / pace - 1)
        total = own.sum()
        ordered = np.sort(own)[::-1]
        is_slow = (own > 10 * np.median(own)) & (own > np.median(own) + 5e5)
        halves = np.array_split(is_slow, 2)
        return TimeSummary(
            num_calls=len(wall),
            mean_ns=float(own.mean()),
            percentiles_ns=tuple(np.percentile(own, (50, 99, 99.9)).tolist()),
            largest_ns=float(own.max()),
            tail_share=(_share_of_first(0.01, ordered), _share_of_first(0.001, ordered)),
            num_slow=int(is_slow.sum()),
            slow_share=float(own[is_slow].sum() / total),
            slow_mean_ns=float(own[is_slow].mean()) if is_slow.any() else 0.0,
            is_slow_throughout=all(half.any() for half in halves),
            cpu_share=float(min(1.0, cpu.sum() / wall.sum())),
            wait_share=float(min(delay.sum(), max(0.0, wall.sum() - cpu.sum())) / wall.sum()),
            medians_ns=tuple(medians.tolist()),
        )

    def _after(self, num_warm: int) -> npt.NDArray[np.float64]:
        return self._times[:, : self._num].astype(np.float64)[:, min(num_warm, self._num // 2) :]


def _without(delay: npt.NDArray[np.float64], wall: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    own: npt.NDArray[np.float64] = wall - delay  # whoever else had the processor is not the environment's doing
    return own.clip(min=1.0)


def _medians_of_parts(times_ns: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.array([np.median(part) for part in np.array_split(times_ns, _NUM_PARTS)[1:] if len(part)])


def _share_of_first(share: float, ordered: npt.NDArray[np.float64]) -> float:
    """Return which share of the sum of figures the first of them are, of which there are so many."""
    return float(ordered[: max(1, round(share * len(ordered)))].sum() / ordered.sum())


class Stopwatch:
    """Measures one call after another, in the thread that made this."""

    def __init__(self) -> None:
        self._scheduling: FileIO | None = None
        with contextlib.suppress(OSError):  # the kernel does not tell
            self._scheduling = open("/proc/thread-self/schedstat", "rb", buffering=0)  # noqa: SIM115 (kept for good)
        self.last = (0, 0, 0)
        self._start = (0, 0, 0)

    def start(self) -> None:
        """Begin."""
        delay_ns = self._delay_ns()
        self._start = (time.perf_counter_ns(), time.thread_time_ns(), delay_ns)

    def stop(self) -> None:
        """End; `last` says for how long it was: all in all, running, and ready without a processor."""
        now_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        self.last = (now_ns - self._start[0], cpu_ns - self._start[1], self._delay_ns() - self._start[2])

    def _delay_ns(self) -> int:
        if self._scheduling is None:
            return 0
        try:
            self._scheduling.seek(0)
            words = self._scheduling.read(64).split()
        except OSError:  # the environment has closed all files of the process
            return 0
        return int(words[1]) if len(words) > 1 else 0


def growth_of(steps: Sequence[int], values: Sequence[float]) -> Growth | None:
    """Return how something grew with the steps; None: there are too few figures.

    The slope is the median of those between any two of the figures (Sen 1968, "Estimates of the regression coefficient
    based on Kendall's tau"): a cache that is filled once, or a single look that was off, does not move it.

    Args:
        steps: taken until each look.
        values: at each look.
    """
    if len(values) < 6:
        return None
    x: npt.NDArray[np.float64] = np.asarray(steps, np.float64)
    y: npt.NDArray[np.float64] = np.asarray(values, np.float64)
    first, second = np.triu_indices(len(x), 1)
    slopes = (y[second] - y[first]) / np.maximum(1.0, x[second] - x[first])
    return Growth(float(np.median(slopes)), int(x[-1] - x[0]), float(np.mean(np.diff(y) > 0)))
