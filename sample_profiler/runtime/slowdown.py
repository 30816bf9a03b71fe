"""Makes a stage of a run slower on purpose, by a known amount, for experiments on a run that goes on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

__all__ = ["MOST_SECONDS", "MOST_SHARE", "Slowdown", "slowdown_command"]

MOST_SHARE = 10.0
MOST_SECONDS = 600.0
_NS_PER_S = 1e9
_COMPUTES = 0.25  # with less of a processor a stage waits: not for processors, of which others leave it as much


class Slowdown:
    """What is added to a stage, in proportion to what it does, and of the same kind.

    A stage that computes gets more to compute: a sleep would leave its processor to others. One that mostly waits, for
    a device or another machine, waits longer. It ends by itself, should nobody be there any more to end it.

    Attributes:
        share: of the stage's own time that is added; 0: nothing.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self._until_ns = 0

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
        self._until_ns = time.perf_counter_ns() + round(seconds * 1e9)

    def begin(self) -> tuple[int, int]:
        """Return the moment at which a pass of the stage begins, for `add_to`."""
        return time.perf_counter_ns(), time.thread_time_ns()

    def add_to(self, begin: tuple[int, int]) -> None:
        """Spend what is to be added to a pass of the stage that began at `begin` and is over now."""
        now_ns, computed_ns = time.perf_counter_ns(), time.thread_time_ns()
        if now_ns > self._until_ns:
            self.share = 0.0
            return
        passed_ns, spent_ns = now_ns - begin[0], computed_ns - begin[1]
        if spent_ns < _COMPUTES * passed_ns:
            time.sleep(self.share * passed_ns / _NS_PER_S)
            return
        # In processor time: where others want the processor, what is added takes longer, as the stage itself does.
        end_ns = computed_ns + round(self.share * spent_ns)
        while time.thread_time_ns() < end_ns:
            pass


def slowdown_command(slowdowns: Mapping[str, Slowdown]) -> Callable[[str, float, float], None]:
    """Return the command `set_slowdown(stage, share, seconds)` of a component that has these stages."""

    def set_slowdown(stage: str, share: float, seconds: float) -> None:
        if stage not in slowdowns:
            raise ValueError(f"no stage {stage!r} here; there are {', '.join(slowdowns)}")
        slowdowns[stage].set(share, seconds)

    return set_slowdown
