"""Runs a component of the user's own as one of the run's: what a loop asks of components, around the user's object."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from sample_profiler.errors import FROM_OUTSIDE
from sample_profiler.profiling import Timing
from sample_profiler.run.extensions.component import RunComponent
from sample_profiler.run.extensions.mailboxes import Letter, Mail
from sample_profiler.run.extensions.run_access import RunAccess
from sample_profiler.runtime.loop.event_loop import Input, Timer
from sample_profiler.runtime.messages.channels import Reports
from sample_profiler.runtime.processes.failure import Failure
from sample_profiler.vocabulary import FOR_COMPONENTS, SLOTS, WAIT

__all__ = ["ComponentHost"]

logger = logging.getLogger(__name__)

_CLOSING_S = 1.0  # in which it is told at the end of the run what it has not heard yet

Result = TypeVar("Result")


class ComponentHost:
    """Gives the user's object its turns.

    Who may be lost and raises is called no more, but at the end: the run goes on without it. Others fail the run.

    Args:
        own: the user's object.
        name: of the component.
        timing: of the component.
        access: what the object may see of the run.
        mail: what it is to be told.
        reports: to the Runner.
        clock: in seconds; for tests.
    """

    def __init__(
        self,
        own: RunComponent,
        name: str,
        timing: Timing,
        access: RunAccess,
        mail: Mail,
        reports: Reports,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.timing = timing
        self._own = own
        self._access = access
        self._mail = mail
        self._reports = reports
        self._clock = clock
        self._has_begun = self._has_failed = False
        own._run = access

    def inputs(self) -> Sequence[Input]:
        """Listen to what signals tell."""
        return self._mail.inputs(self._hear)

    def timers(self) -> list[Timer]:
        """Do at intervals what the object does."""
        return self._try(self._make_timers) or []

    def _make_timers(self) -> list[Timer]:
        return [Timer(interval_s, partial(self._try, callback)) for interval_s, callback in self._own.timers()]

    def gauges(self) -> dict[str, float]:
        """Measure what the object measures."""
        return (self._try(self._own.gauges) or {}) if self._has_begun else {}

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Offer what the object offers."""
        return (self._try(self._own.commands) or {}) if self._has_begun else {}

    def start(self) -> None:
        """Have the object make what it needs."""
        with self.timing.add_time("on_start"):
            self._try(self._own.on_start)
        self._has_begun = not self._has_failed
        self._access.is_starting = False

    def wait_block(self) -> str:
        """Tell that it waits for any component."""
        return WAIT + FOR_COMPONENTS

    def finish(self) -> None:
        """Tell the object what it has not heard, as far as there is time, and let it go."""
        letters, until_s = deque(self._mail.rest()), self._clock() + _CLOSING_S
        while letters and self._has_begun and not self._has_failed and self._clock() < until_s:
            self._hear([letters.popleft()])
            letters.extend(self._mail.rest())  # the Runner hands on more as soon as there is room
        if letters and not self._has_failed:
            what = "signal was" if len(letters) == 1 else "signals were"
            logger.warning(
                "%s %s not told to %s: the run has ended, and did not wait for it", f"{len(letters):,}", what, self.name
            )
        if self._has_begun:
            with self.timing.add_time("on_stop"):
                self._own.on_stop()

    def _hear(self, letters: list[Letter]) -> None:
        for signal, method, payload in letters:
            with self.timing.add_time(SLOTS), self.timing.add_time(signal):
                self._try(getattr(self._own, method), payload)

    def _try(self, call: Callable[..., Result], *arguments: Any) -> Result | None:
        """Call the user's code, unless it has failed before."""
        if self._has_failed:
            return None
        try:
            return call(*arguments)
        except FROM_OUTSIDE:
            raise
        except BaseException as error:
            self._has_failed = True
            if not self._own.may_be_lost:
                raise
            self._reports.send(Failure.from_exception(self.name, error))
            return None
