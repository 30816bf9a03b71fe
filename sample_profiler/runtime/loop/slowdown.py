"""Makes a stage of a run slower on purpose, by a known amount, for experiments on a run that goes on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, ParamSpec, TypeVar

from sample_profiler.files import read_at_once

__all__ = ["MOST_SECONDS", "MOST_SHARE", "Slowdown", "slowdown_command"]

MOST_SHARE = 10.0
MOST_SECONDS = 600.0
_NS_PER_S = 1e9
_SHORTEST_SLEEP_NS = 200_000  # a sleep is some 50 microseconds longer than asked for
_MOST_AHEAD_NS = 100_000_000

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class _Pass(NamedTuple):
    """How a pass of a stage began.

    Attributes:
        asked_ns: processor time of the thread before it looked at clocks.
        now_ns: of the wall clock.
        computed_ns: processor time of the thread.
        delayed_ns: for which the thread has been ready and had no processor.
    """

    asked_ns: int
    now_ns: int
    computed_ns: int
    delayed_ns: int


class Slowdown:
    """What is added to a stage, in proportion to what it does, and of the same kind.

    For what a stage computes it gets more to compute: a sleep would leave its processor to others. For what it waits,
    for a device or another process, it waits longer. Time in which it was ready and had no processor is neither. It
    ends by itself, should nobody be there any more to end it.

    Attributes:
        share: of the stage's own time that is added; 0: nothing.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self._until_ns = 0
        self._owed_ns = 0.0  # of waiting: too short for a sleep, or less than 0 after one that was too long

    def set(self, share: float, seconds: float) -> None:
        """Add work from now on.

        Args:
            share: of the stage's own time; 0 ends it.
            seconds: for which it is added.

        Raises:
            ValueError: `share` or `seconds` is out of range.
        """
        if not 0 <= share <= MOST_SHARE or not 0 <= seconds <= MOST_SECONDS or math.isnan(share + seconds):
            raise ValueError(f"a slowdown by {share} for {seconds} s: at most {MOST_SHARE:g} and {MOST_SECONDS:g}")
        self.share = float(share)
        self._until_ns = time.perf_counter_ns() + round(seconds * _NS_PER_S)
        self._owed_ns = 0.0

    def around(
        self, function: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> _Result:
        """Call a function that is a pass of the stage, and spend what is to be added to it."""
        if not self.share:
            return function(*args, **kwargs)
        begin = self._begin()
        result = function(*args, **kwargs)
        self._add_to(begin)
        return result

    def _begin(self) -> _Pass:
        """Return how a pass of the stage begins, for `_add_to`, in the same thread."""
        asked_ns, delayed_ns = time.thread_time_ns(), _delayed_ns()
        return _Pass(asked_ns, time.perf_counter_ns(), time.thread_time_ns(), delayed_ns)

    def _add_to(self, begin: _Pass) -> None:
        """Spend what is to be added to a pass of the stage that began like that and is over now."""
        now_ns, computed_ns = time.perf_counter_ns(), time.thread_time_ns()
        if now_ns > self._until_ns:
            self.share = 0.0
            return
        spent_ns = computed_ns - begin.computed_ns
        waited_ns = max(0, now_ns - begin.now_ns - spent_ns - (_delayed_ns() - begin.delayed_ns))
        # In processor time: where others want the processor, what is added takes longer, as the stage itself does.
        # To look at clocks is a part of it.
        end_ns = computed_ns + self.share * spent_ns - (begin.computed_ns - begin.asked_ns)
        while time.thread_time_ns() < end_ns:
            pass
        self._owed_ns += self.share * waited_ns
        if self._owed_ns >= _SHORTEST_SLEEP_NS:
            self._sleep_off()

    def _sleep_off(self) -> None:
        begin_ns = time.perf_counter_ns()
        time.sleep(self._owed_ns / _NS_PER_S)
        # A process that was stopped meanwhile must not go without for long.
        self._owed_ns = max(self._owed_ns - (time.perf_counter_ns() - begin_ns), -_MOST_AHEAD_NS)


def _delayed_ns() -> int:
    """Return how long this thread has been ready and had no processor; 0 where the system does not tell."""
    try:
        return int(read_at_once("/proc/thread-self/schedstat").split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def slowdown_command(slowdowns: Mapping[str, Slowdown]) -> Callable[[str, float, float], None]:
    """Return the command `set_slowdown(stage, share, seconds)` of a component that has these stages."""

    def set_slowdown(stage: str, share: float, seconds: float) -> None:
        if stage not in slowdowns:
            raise ValueError(f"no stage {stage!r} here; there are {', '.join(slowdowns)}")
        slowdowns[stage].set(share, seconds)

    return set_slowdown
