"""Owns who listens to a run: observers, handlers, slots, none of whom may take the Runner along or hold it up.

What they raise is a failure of the run. What they do takes as long as it takes. So what comes again and again is only
owed to them at first: with each turn of its loop the Runner tells a little of it, and in between it looks at the clock,
at signals and at what components report.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sample_profiler.components.messages import MESSAGE_TYPES
from sample_profiler.errors import ComponentLostError, RunEndedError
from sample_profiler.profiling import Timing
from sample_profiler.repeated_warnings import is_logged
from sample_profiler.run.extensions.signals import takes_arguments
from sample_profiler.run.listeners import HandlerListener, Listener, ObserverListener, SlotListener
from sample_profiler.run.observers import RunObserver
from sample_profiler.runtime.messages.channels import LocalChannel

if TYPE_CHECKING:
    from sample_profiler.run.runner import Runner

__all__ = ["Dispatcher", "MessageHandler"]

logger = logging.getLogger(__name__)

MessageHandler = Callable[["Runner", Any], None]

_TURN_S = 0.1  # for what is owed, at each turn; the call during which they are over is not cut off
_CLOSING_S = 0.5  # the same at the end of the run


class _Owed(LocalChannel):
    """Has something while somebody is owed something, and it is time to tell it."""

    def __init__(self, is_due: Callable[[], bool]) -> None:
        super().__init__()
        self.has_pending = is_due  # type: ignore[method-assign]

    def receive(self, most: int | None = None) -> list[int]:  # noqa: ARG002
        return [1]


class Dispatcher:
    """Observers, message handlers, and slots of a run that are called in the Runner's process.

    What a user has written may raise. Whoever does is told of nothing more, but that the run ends. Who asks components
    for something when the run has ended, or one of them is lost, is not to blame: nobody can know that before.

    Each call is a block of the Runner: within `observers`, `message_handlers` or `slots` one with the name of the class
    or the function, and in that one with the name of the event.

    Args:
        observers: who is told how the run goes.
        timing: of the Runner.
        fail: told of every exception, and of `sys.exit`, and who has raised it at what event; ends the run.
        is_over: tells whether the run has ended.
        rest: how much of the time that a turn has taken is left to others before the next.
        clock: in seconds; for tests.

    Attributes:
        owed: for a loop to listen to: there is something while a turn is due.
    """

    def __init__(
        self,
        observers: Sequence[RunObserver],
        timing: Timing,
        fail: Callable[[BaseException, str], None],
        is_over: Callable[[], bool],
        rest: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._observers = list(map(ObserverListener, observers))
        self._handlers: list[HandlerListener] = []
        self._slots: list[SlotListener] = []
        self._next: deque[Listener] = deque(self._observers)
        self._timing = timing
        self._fail = fail
        self._is_over = is_over
        self._rest = rest
        self._clock = clock
        self._rest_until_s = clock()
        self._nested_s = 0.0
        self._num_too_late = 0
        self.owed = _Owed(self._is_due)

    def add_handler(self, message_type: type, handler: MessageHandler) -> None:
        """Have a handler called with every message of a type.

        Raises:
            TypeError: there are no messages of that type, or the handler does not take two arguments.
        """
        if not any(message_type is known for known in MESSAGE_TYPES):
            given = message_type.__name__ if isinstance(message_type, type) else repr(message_type)
            names = ", ".join(known.__name__ for known in MESSAGE_TYPES)
            raise TypeError(
                f"there are no messages {given:.200}: use a class of {MESSAGE_TYPES[0].__module__}: {names}"
            )
        if not takes_arguments(handler, 2):
            raise TypeError(
                f"the handler of {message_type.__name__} is {handler!r:.200}: give a function(runner, message)"
            )
        listener = HandlerListener(message_type, handler)
        self._handlers.append(listener)
        self._next.append(listener)

    def add_slot(self, signal: str, slot: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a function that owes a slot a call with a payload of a signal."""
        listener = next((each for each in self._slots if each.slot == slot), None)
        if listener is None:
            listener = SlotListener(slot)
            self._slots.append(listener)
            self._next.append(listener)
        return partial(listener.owe, signal)

    def tell(self, event: str, call: Callable[[RunObserver], None]) -> None:
        """Tell all observers that still listen of an event, now, and not of an earlier one alike that they are owed."""
        for listener in self._observers:
            # An observer may have others told of something meanwhile, who raise then.
            if listener.is_listening and listener.hears(event):
                listener.latest.pop(event, None)
                self._call(listener, event, partial(call, listener.observer))

    def tell_of_end(self, call: Callable[[RunObserver], None]) -> None:
        """Tell all of the end, those that have raised, too: they hold what they have to let go of."""
        for listener in self._observers:
            if listener.hears("on_stop"):
                self._call(listener, "on_stop", partial(call, listener.observer))

    def owe(self, event: str, call: Callable[[RunObserver], None]) -> None:
        """Owe all observers the news of an event, instead of an earlier one alike."""
        for listener in self._observers:
            if listener.hears(event):
                listener.latest[event] = partial(call, listener.observer)

    def forget(self, event: str) -> None:
        """Owe nobody the news of an event any more."""
        for listener in self._observers:
            listener.latest.pop(event, None)

    def owe_training_steps(self, last: int, call: Callable[[RunObserver, int], None]) -> None:
        """Owe all observers each training step up to this one, in order, counted from 1."""
        for listener in self._observers:
            listener.owe_steps(last, call)

    def owe_message(self, runner: Runner, message: Any) -> None:
        """Owe the handlers of messages of its type that they are called with it."""
        for listener in self._handlers:
            if listener.message_type is type(message):
                listener.owe(runner, message)

    def serve(self) -> None:
        """Take a turn: tell what is owed to one after another, for a moment; the rest of them is first in the next."""
        begin_s = self._clock()
        for _ in range(len(self._next)):
            listener = self._next[0]
            self._next.rotate(-1)
            self._serve_until(begin_s + _TURN_S, listener)
            if self._is_over() or self._clock() >= begin_s + _TURN_S:
                break
        end_s = self._clock()
        self._rest_until_s = end_s + self._rest * (end_s - begin_s)

    def hurry_slots(self) -> None:
        """Tell slots for a moment what they are owed: that the run will end, while components are still there."""
        until_s = self._clock() + _TURN_S
        for listener in self._slots:
            self._hurry(listener, until_s)

    def close(self) -> None:
        """Tell what is still owed for a moment, first to who is quick at it; say what is left out then."""
        until_s = self._clock() + _CLOSING_S
        for listener in sorted(self._next, key=lambda each: each.usual_s(each.step)):
            self._hurry(listener, until_s)
            for event, call in tuple(listener.latest.items()):
                if self._has_time(listener, listener.latest_s(event), until_s):
                    self._call(listener, event, call)
            if missed := listener.describe_missed():
                logger.warning("%s: the run has ended, and did not wait for it", missed)

    def _hurry(self, listener: Listener, until_s: float) -> None:
        # A first step that was slow says nothing of others; the last news is not worth the risk.
        while listener.num_steps and self._has_time(listener, listener.usual_s(listener.step), until_s):
            self._call(listener, listener.step, listener.take_step())

    def _has_time(self, listener: Listener, takes_s: float, until_s: float) -> bool:
        return listener.is_listening and self._clock() + takes_s < until_s

    def _is_due(self) -> bool:
        return self._clock() >= self._rest_until_s and any(listener.is_owed for listener in self._next)

    def _serve_until(self, until_s: float, listener: Listener) -> None:
        def goes_on() -> bool:
            return listener.is_listening and not self._is_over()

        while listener.num_steps and goes_on() and self._clock() < until_s:
            self._call(listener, listener.step, listener.take_step())
        for event in tuple(listener.latest):  # whatever it took until here: news is told about as often as it comes
            if goes_on():
                self._call(listener, event, listener.latest.pop(event))

    def _call(self, listener: Listener, event: str, call: Callable[[], None]) -> None:
        outer_s, self._nested_s = self._nested_s, 0.0
        begin_s = self._clock()
        with (
            self._timing.add_time(listener.block),
            self._timing.add_time(listener.name),
            self._timing.add_time(event),
        ):
            listener.is_listening = self._survive(listener, event, call) and listener.is_listening
        end_s = self._clock()
        # What it has had others told meanwhile is theirs.
        listener.note(event, end_s - begin_s - self._nested_s, end_s)
        self._nested_s = outer_s + end_s - begin_s

    def _survive(self, listener: Listener, event: str, call: Callable[[], None]) -> bool:
        try:
            call()
        except (RunEndedError, ComponentLostError) as error:  # a lost worker is replaced, others end the run
            self._num_too_late += 1
            if is_logged(self._num_too_late):
                logger.warning("An observer or message handler asked too late: %s", error)
        except BaseException as error:  # HangError, too: this one is given up, and the run ends
            if isinstance(error, KeyboardInterrupt):
                raise
            self._fail(error, f"{listener.what} {listener.name}, {event}")
            return False
        return True
