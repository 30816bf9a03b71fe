"""Does something at moments of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sample_profiler.run.observers import RunObserver
from sample_profiler.run.records.statistics import RunStatus

Moment = tuple[float, Callable[[], object]]


class AtMoments(RunObserver):
    """Observes a run and calls functions when it has been going on for so long, in the Runner's thread.

    Args:
        moments: seconds since the run's start, in their order, and what is then to be called.
    """

    def __init__(self, moments: Sequence[Moment]) -> None:
        self._to_come = list(moments)

    def on_status(self, status: RunStatus) -> None:
        """Call what is due."""
        while self._to_come and status.elapsed_s >= self._to_come[0][0]:
            self._to_come.pop(0)[1]()
