"""Owns which stretch of time the slowest environment of a worker is looked for in: a recent one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = ["RecentEnvTimes", "with_resets"]

_APART_S = 8.0
_FEWEST_STEPS = 16


class _Mark(NamedTuple):
    seconds: float
    num_steps: float
    times_ns: list[int]


class RecentEnvTimes:
    """Turns times that count up from the start into those of a recent window.

    The window begins at the last mark but one. Marks are at least 8 s and 16 steps of an environment apart, so it is
    long enough for a step that was displaced by another process not to matter, however often somebody asks.

    Args:
        num_envs: of the worker.
        num_steps: that an environment counts as having taken already, on average.
        clock_s: returns seconds that never go back; for tests.
    """

    def __init__(self, num_envs: int, num_steps: float = 0.0, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._before = self._latest = _Mark(clock_s(), num_steps, [0] * num_envs)

    def since_mark(self, times_ns: Sequence[int], num_steps: float) -> list[int]:
        """Return the nanoseconds that each environment took in the window.

        Args:
            times_ns: of each environment, since the start.
            num_steps: that an environment has taken since then, on average.
        """
        recent_ns = [now - then for now, then in zip(times_ns, self._before.times_ns, strict=True)]
        mark = _Mark(self._clock_s(), num_steps, list(times_ns))
        if mark.seconds - self._latest.seconds >= _APART_S and mark.num_steps - self._latest.num_steps >= _FEWEST_STEPS:
            self._before, self._latest = self._latest, mark
        return recent_ns


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
