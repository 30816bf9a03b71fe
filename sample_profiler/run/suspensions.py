"""Owns what is known of the time for which a run, or a part of it, stood still: whom to name, and what to leave out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection

from sample_profiler.run.commands.selection import name_some
from sample_profiler.runtime.signals.suspension import StandstillWatch, StoodStill

__all__ = ["Standstills"]

logger = logging.getLogger(__name__)

_SETTLED_S = 2.5  # after the first has told of a standstill, all that stood still with it have


class Standstills:
    """Takes in who stood still, this process included, and makes one line and one span of time of it.

    Args:
        name: of the component that this process is of.
        pacemakers: without whom a run gets nowhere: all Learners, or the one process that there is.
        clock: monotonic, in seconds; for tests.
        watch: of this process; None: a new one.
    """

    def __init__(
        self,
        name: str,
        pacemakers: Collection[str],
        clock: Callable[[], float] = time.monotonic,
        watch: StandstillWatch | None = None,
    ) -> None:
        self._name = name
        self._pacemakers = pacemakers
        self._clock = clock
        self._watch = watch or StandstillWatch(name)
        self._told: dict[str, StoodStill] = {}
        self._first_s = 0.0

    def look(self) -> None:
        """Look whether this process stood still; from any thread, every second or so."""
        if (stood_still := self._watch.look()) is not None:
            self.note(stood_still)

    def note(self, told: StoodStill) -> None:
        """Take in that a component stood still."""
        if not self._told:
            self._first_s = self._clock()
        self._told[told.component] = told

    @property
    def is_open(self) -> bool:
        """Whether this process stood still, and it is not known yet whether all of the run did."""
        return self._name in self._told

    def settle(self, *, at_once: bool = False) -> tuple[float, float] | None:
        """Log who stood still, once all have told; return when the run as a whole began and ceased to.

        Args:
            at_once: whether to wait for nobody.

        Returns:
            Two moments of the monotonic clock; None: nothing is new, or the run went on.
        """
        if not self._told or not (at_once or self._clock() >= self._first_s + _SETTLED_S):
            return None
        told, self._told = self._told, {}
        pace = [told[name] for name in self._pacemakers if name in told]
        begin_s = max((each.begin_s for each in pace), default=0.0)
        end_s = min((each.end_s for each in pace), default=0.0)
        is_whole = len(pace) == len(self._pacemakers) and begin_s < end_s
        logger.warning(
            "%s stood still for %.1f s, as when suspended (Ctrl+Z, SIGSTOP) or with the machine%s",
            name_some(list(told)),
            max(each.end_s - each.begin_s for each in told.values()),
            ": throughput and --train_for_seconds leave that out" if is_whole else "",
        )
        return (begin_s, end_s) if is_whole else None
