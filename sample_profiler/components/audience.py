"""Owns who listens to a run: observers and handlers of messages, whose errors may not take the Runner along."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sample_profiler.components.messages import MESSAGE_TYPES
from sample_profiler.components.observers import RunObserver
from sample_profiler.errors import ComponentLostError, RunEndedError

if TYPE_CHECKING:
    from sample_profiler.components.runner import Runner

__all__ = ["Audience", "MessageHandler"]

logger = logging.getLogger(__name__)

MessageHandler = Callable[["Runner", Any], None]


class Audience:
    """Observers and message handlers of a run.

    What a user has written may raise. Whoever does is told of nothing more, but that the run ends. Who asks components
    for something when the run has ended, or one of them is lost, is not to blame: nobody can know that before.

    Args:
        observers: who is told how the run goes.
        fail: told of every exception, and of `sys.exit`; ends the run.
    """

    def __init__(self, observers: Sequence[RunObserver], fail: Callable[[BaseException], None]) -> None:
        self._observers = tuple(observers)
        self._listening = list(observers)
        self._handlers: defaultdict[type, list[MessageHandler]] = defaultdict(list)
        self._fail = fail

    def add_handler(self, message_type: type, handler: MessageHandler) -> None:
        """Have a handler called with every message of a type.

        Raises:
            TypeError: there are no messages of that type, or the handler cannot be called.
        """
        if not any(message_type is known for known in MESSAGE_TYPES):
            given = message_type.__name__ if isinstance(message_type, type) else repr(message_type)
            names = ", ".join(known.__name__ for known in MESSAGE_TYPES)
            raise TypeError(
                f"there are no messages {given:.200}: use a class of {MESSAGE_TYPES[0].__module__}: {names}"
            )
        if not callable(handler):
            raise TypeError(
                f"the handler of {message_type.__name__} is {handler!r:.200}: give a function(runner, message)"
            )
        self._handlers[message_type].append(handler)

    def tell(self, event: Callable[[RunObserver], None]) -> None:
        """Tell all that still listen of an event."""
        for observer in tuple(self._listening):
            # An observer may have others told of something meanwhile, who raise then.
            if _is_among(self._listening, observer) and not self._survive(partial(event, observer)):
                self._listening = [other for other in self._listening if other is not observer]

    def tell_of_end(self, event: Callable[[RunObserver], None]) -> None:
        """Tell all of the end, those that have raised, too: they hold what they have to let go of."""
        self._listening = list(self._observers)
        self.tell(event)

    def hand_on(self, runner: Runner, message: Any) -> None:
        """Call the handlers of a message."""
        handlers = self._handlers.get(type(message), [])
        for handler in tuple(handlers):
            if not self._survive(partial(handler, runner, message)) and handler in handlers:
                handlers.remove(handler)

    def _survive(self, call: Callable[[], None]) -> bool:
        try:
            call()
        except (RunEndedError, ComponentLostError) as error:  # a lost worker is replaced, others end the run
            logger.warning("An observer or message handler asked too late: %s", error)
        except (Exception, SystemExit) as error:
            self._fail(error)
            return False
        return True


def _is_among(observers: Sequence[RunObserver], observer: RunObserver) -> bool:
    return any(other is observer for other in observers)  # not `in`: a user's observers may compare as they like
