"""Owns what a worker tells of the times of its environments: of a recent stretch, the slowest one and the tail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sample_profiler.vocabulary import (
    SLOWEST_ENV,
    SLOWEST_ENV_RATIO,
    SLOWEST_ENV_SHARE,
    SLOWEST_PERCENT_SHARE,
    SLOWEST_PERMILLE_SHARE,
    TAIL_ENV,
    TAIL_NUM_ENVS,
    TAIL_NUM_STEPS,
    TAIL_OTHER_ENV,
    TAIL_SHARE,
    TAIL_STEP_S,
    TAIL_STEPS_SHARE,
)

__all__ = ["NUM_LENGTHS", "EnvTimeGauges", "RecentEnvTimes", "slowest_env", "tail", "with_resets"]

NUM_LENGTHS = 64
"""Steps are told apart by the `bit_length` of the nanoseconds that they take: each length is twice the one before."""

_APART_S = 8.0
_FEWEST_STEPS = 16
_TIMES_THE_MEAN = 8.0  # of all steps of its environment: no step of one that is slow altogether takes so long
_WORTH_TELLING = 0.1  # of the time of all steps
_NS_PER_S = 1e9

Figures = npt.NDArray[np.int64]


class _Mark(NamedTuple):
    seconds: float
    num_steps: float
    figures: Figures


class RecentEnvTimes:
    """Turns figures that count up from the start into those of a recent window.

    The window begins at the last mark but one. Marks are at least 8 s and 16 steps of an environment apart, so it is
    long enough for a step that was displaced by another process not to matter, however often somebody asks.

    Args:
        shape: of the figures.
        num_steps: that an environment counts as having taken already, on average.
        clock_s: returns seconds that never go back; for tests.
    """

    def __init__(
        self, shape: tuple[int, ...], num_steps: float = 0.0, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock_s = clock_s
        self._before = self._latest = _Mark(clock_s(), num_steps, np.zeros(shape, dtype=np.int64))

    def since_mark(self, figures: Figures, num_steps: float) -> Figures:
        """Return what has been added to the figures in the window.

        Args:
            figures: since the start; stay as they are.
            num_steps: that an environment has taken since then, on average.
        """
        recent = figures - self._before.figures
        mark = _Mark(self._clock_s(), num_steps, figures)
        if mark.seconds - self._latest.seconds >= _APART_S and mark.num_steps - self._latest.num_steps >= _FEWEST_STEPS:
            self._before, self._latest = self._latest, mark
        return recent


class _TimedGroup(Protocol):
    """What counts the times of a group's environments, as a SteppingGroup; figures are by environment."""

    env_steps: list[list[int]]
    env_ns: list[list[int]]
    reset_ns: list[int]


class EnvTimeGauges:
    """Tells of the recent steps of a worker's environments: the slowest one of them, and the slowest steps.

    Args:
        groups: of all of its environments, in order.
        first_env: number of the first environment.
        num_steps: returns how many steps an environment has taken by now, on average.
    """

    def __init__(self, groups: Sequence[_TimedGroup], first_env: int, num_steps: Callable[[], float]) -> None:
        self._groups = groups
        self._first_env = first_env
        self._num_steps = num_steps
        num_envs = sum(len(group.env_ns) for group in groups)
        self._recent = RecentEnvTimes((2, num_envs, NUM_LENGTHS), num_steps())

    def gauges(self) -> dict[str, float]:
        """Return the gauges of the environments."""
        steps = [lengths for group in self._groups for lengths in group.env_steps]
        times_ns = [lengths for group in self._groups for lengths in group.env_ns]
        totals = np.array([steps, times_ns], dtype=np.int64)
        recent_steps, recent_ns = self._recent.since_mark(totals, self._num_steps())
        resets_ns = [time_ns for group in self._groups for time_ns in group.reset_ns]
        sums_ns = with_resets(recent_ns.sum(axis=1).tolist(), totals[1].sum(axis=1).tolist(), resets_ns)
        return slowest_env(sums_ns, self._first_env) | tail(recent_steps, recent_ns, self._first_env)


def slowest_env(times_ns: Sequence[float], first_env: int) -> dict[str, float]:
    """Return the gauges that compare the slowest environment with the worker's others, which step as often.

    Args:
        times_ns: that each environment took.
        first_env: number of the first.
    """
    total_ns = sum(times_ns)
    if len(times_ns) < 2 or not total_ns:
        return {}
    slowest_ns = max(times_ns)
    others_ns = (total_ns - slowest_ns) / (len(times_ns) - 1)
    return {
        SLOWEST_ENV: float(first_env + times_ns.index(slowest_ns)),
        SLOWEST_ENV_RATIO: slowest_ns / max(others_ns, 1.0),
        SLOWEST_ENV_SHARE: slowest_ns / total_ns,
    }


def tail(counts: Figures, times_ns: Figures, first_env: int) -> dict[str, float]:
    """Return the gauges of the steps that take many times as long as the others of the same environment.

    Args:
        counts: `[envs, NUM_LENGTHS]`: steps, by how long they took.
        times_ns: `[envs, NUM_LENGTHS]`: nanoseconds that they took together.
        first_env: number of the first environment.

    Returns:
        Which share of the time the slowest hundredth and thousandth of the steps takes, and that tail; where the tail
        takes a tenth of it or more, also what it consists of and whose steps these are.
    """
    num_steps, total_ns = int(counts.sum()), int(times_ns.sum())
    if not num_steps or not total_ns:
        return {}
    means_ns = times_ns.sum(axis=1) / np.maximum(1, counts.sum(axis=1))
    shortest_ns = 2.0 ** (np.arange(NUM_LENGTHS) - 1)
    is_tail = shortest_ns >= _TIMES_THE_MEAN * np.maximum(means_ns, 1.0)[:, None]
    num_tail_steps, tail_ns = int((counts * is_tail).sum()), (times_ns * is_tail).sum(axis=1)
    gauges = {
        SLOWEST_PERCENT_SHARE: _share_of_slowest(counts, times_ns, 0.01),
        SLOWEST_PERMILLE_SHARE: _share_of_slowest(counts, times_ns, 0.001),
        TAIL_SHARE: float(tail_ns.sum()) / total_ns,
    }
    if gauges[TAIL_SHARE] < _WORTH_TELLING:  # a process has room for few gauges
        return gauges
    by_share = np.argsort(-tail_ns, kind="stable")
    return gauges | {
        TAIL_STEPS_SHARE: num_tail_steps / num_steps,
        TAIL_NUM_STEPS: float(num_tail_steps),
        TAIL_STEP_S: float(tail_ns.sum()) / num_tail_steps / _NS_PER_S,
        TAIL_NUM_ENVS: float(np.count_nonzero(tail_ns)),
        TAIL_ENV: float(first_env + by_share[0]),
        TAIL_OTHER_ENV: float(first_env + by_share[min(1, len(by_share) - 1)]),
    }


def _share_of_slowest(counts: Figures, times_ns: Figures, fraction: float) -> float:
    """Return for which share of the time the slowest steps take, so many of all; of one length, all alike."""
    left = fraction * float(counts.sum())
    slowest_ns = 0.0
    lengths = zip(counts.sum(axis=0)[::-1].tolist(), times_ns.sum(axis=0)[::-1].tolist(), strict=True)
    for count, time_ns in lengths:
        if count:
            taken = min(left, count)
            slowest_ns += time_ns * taken / count
            left -= taken
    return slowest_ns / float(times_ns.sum())


def with_resets(recent_ns: Sequence[int], steps_ns: Sequence[int], resets_ns: Sequence[int]) -> list[float]:
    """Return recent times with the part of the resets that belongs to them.

    Resets may be so rare that only one environment has one in the window, and so long that it would seem slower than
    others that are just like it: so they are spread over all steps, and count once every environment has had one.

    Args:
        recent_ns: that each environment took for steps in the window.
        steps_ns: that each took for steps since the start.
        resets_ns: that each took for resets since the start.
    """
    spread = sum(recent_ns) / max(1, sum(steps_ns)) if all(resets_ns) else 0.0
    return [recent + spread * reset for recent, reset in zip(recent_ns, resets_ns, strict=True)]
