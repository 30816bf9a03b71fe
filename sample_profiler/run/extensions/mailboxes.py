"""Owns what a component of the user's own is still to be told, and its way there.

Nobody waits for such a component: what it has not heard is kept for it, up to a limit, beyond which the oldest is
dropped. In the parallel wiring that lies in the Runner's process, beside what a pipe holds; the component reads the
pipe when it has heard everything that it has read before. In the serial wiring it rests after each payload for as long
as that took, as all others wait for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sample_profiler.repeated_warnings import is_logged
from sample_profiler.runtime.loop.event_loop import Input
from sample_profiler.runtime.messages.channels import LocalChannel, PipeReports

__all__ = ["Letter", "LocalMailbox", "Mail", "Mailbox", "PipeMailbox"]

logger = logging.getLogger(__name__)

_MOST_LETTERS = 10_000

Letter = tuple[str, str, Any]
"""Name of the signal, name of the method that is its slot, payload."""

Hear = Callable[[list[Letter]], None]


class Mail(Protocol):
    """The component's end of its mailbox."""

    def inputs(self, hear: Hear) -> Sequence[Input]:
        """Return what the component listens to; it hears one letter a turn."""

    def rest(self) -> list[Letter]:
        """Return what it has not heard, at the end."""


class Mailbox(LocalChannel):
    """What one component is still to be told, as the Runner keeps it.

    Args:
        component: whose it is.
        clock: in seconds; for tests.
    """

    def __init__(self, component: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._component = component
        self._num_dropped = 0
        self._is_closed = False
        self.clock = clock

    def put(self, letter: Letter) -> None:
        """Keep a letter for the component; where there are too many, the oldest is dropped."""
        if self._is_closed:
            return
        if len(self._values) == _MOST_LETTERS:
            self._values.popleft()
            self._num_dropped += 1
            if is_logged(self._num_dropped):
                logger.warning(
                    "%s hears signals more slowly than they come: %s wait, and the oldest is dropped (%s so far)",
                    *(self._component, f"{_MOST_LETTERS:,}", f"{self._num_dropped:,}"),
                )
        self._values.append(letter)
        self.deliver()

    def deliver(self) -> None:
        """Hand on as much as there is room for."""

    def mail(self) -> Mail:
        """Return the component's end, which travels to its process."""
        raise NotImplementedError

    def close(self) -> None:
        """Keep nothing any more: the component has ended."""
        self._is_closed = True
        if self._values:
            what = "signal was" if len(self._values) == 1 else "signals were"
            logger.warning("%s %s not told to %s: it has ended", f"{len(self._values):,}", what, self._component)
        self._values.clear()


class LocalMailbox(Mailbox):
    """The mailbox of a component in this process."""

    def __init__(self, component: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(component, clock)
        self._rests_until_s = clock()

    def has_pending(self) -> bool:
        """Tell whether there is something to hear, and it is time for it."""
        return bool(self._values) and self.clock() >= self._rests_until_s

    def mail(self) -> Mail:
        """Return this object."""
        return self

    def inputs(self, hear: Hear) -> Sequence[Input]:
        """Return itself, to be heard with rests in between."""

        def hear_and_rest(letters: list[Letter]) -> None:
            begin_s = self.clock()
            hear(letters)
            end_s = self.clock()
            self._rests_until_s = end_s + (end_s - begin_s)

        return [Input(self, hear_and_rest, most=1)]

    def rest(self) -> list[Letter]:
        """Return all letters."""
        letters = self.pending()
        self._values.clear()
        return letters


class PipeMailbox(Mailbox):
    """The mailbox of a component in another process."""

    def __init__(self, component: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(component, clock)
        self._pipe = PipeReports()

    def deliver(self) -> None:
        """Write into the pipe what it has room for."""
        while self._pipe.flush() and self._values:  # what was begun to be written goes on in any case
            self._pipe.post(self._values.popleft())

    def mail(self) -> Mail:
        """Return the other end of the pipe."""
        return _PipeMail(self._pipe)


class _PipeMail:
    def __init__(self, pipe: PipeReports) -> None:
        self._pipe = pipe
        self._unheard = LocalChannel()

    def inputs(self, hear: Hear) -> Sequence[Input]:
        return [Input(self, self._unheard.send), Input(self._unheard, hear, most=1)]

    def fileno(self) -> int:
        return self._pipe.fileno()

    def receive(self) -> list[Letter]:
        return [] if self._unheard.has_pending() else self._pipe.receive()

    def rest(self) -> list[Letter]:
        letters = [*self._unheard.pending(), *self._pipe.receive()]
        self._unheard.clear()
        return letters
