"""Owns what one observer or message handler is owed, how long it takes for it, and when that is worth a warning."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from sample_profiler.profiling.tree.render import printable
from sample_profiler.repeated_warnings import is_logged
from sample_profiler.run.observers import RunObserver
from sample_profiler.vocabulary import MESSAGE_HANDLERS, OBSERVERS, SLOTS, WAIT

__all__ = ["HandlerListener", "Listener", "ObserverListener", "SlotListener"]

logger = logging.getLogger(__name__)

_TRAINING_STEP = "on_training_step"
_MOST_NAME = 80  # of characters: a record file has not room for any number of them
_TAKEN = (WAIT, OBSERVERS, MESSAGE_HANDLERS, SLOTS)  # beginnings of names of blocks that mean something else
_MOST_MESSAGES = 10_000  # that wait for one handler
_WINDOW_S = 5.0  # of the Runner's time, at least, that a listener is judged by
_MUCH = 0.1  # of it

Call = Callable[[], None]


class _CallTimes:
    """How long calls of one method take.

    Of those that are judged together the longest does not count: the first may import a library.

    Attributes:
        latest_s: how long the latest call took.
        usual_s: how long the latest calls took, on average; 0 while there was but one.
    """

    def __init__(self) -> None:
        self._begin_s = 0.0
        self._num_calls = 0
        self._total_s = 0.0
        self._longest_s = 0.0
        self._num_warnings = 0
        self.latest_s = 0.0
        self.usual_s = 0.0

    def add(self, took_s: float, now_s: float) -> float:
        """Note a call that has just ended; return the share of the time that all have had if a warning is due, or 0."""
        if not self._num_calls:
            self._begin_s = now_s - took_s
        self.latest_s = took_s
        self._num_calls += 1
        self._total_s += took_s
        self._longest_s = max(self._longest_s, took_s)
        if self._num_calls < 2:
            return 0.0
        counted_s, passed_s = self._total_s - self._longest_s, now_s - self._begin_s
        self.usual_s = counted_s / (self._num_calls - 1)
        if passed_s < _WINDOW_S:
            return 0.0
        self._num_calls, self._total_s, self._longest_s = 0, 0.0, 0.0
        if counted_s < _MUCH * passed_s:
            return 0.0
        self._num_warnings += 1
        return counted_s / passed_s if is_logged(self._num_warnings) else 0.0


class Listener:
    """An observer, a message handler or a slot: who it is, what it is owed, and how long it takes.

    What comes again and again is owed to it as *steps*, of which it is told each, in order. Of what is only news the
    latest is owed.

    Args:
        block: that its own block is in.
        what: it is, in words.
        name: that its author has given it; any text.
        step: the event that its steps are, as a block is named.

    Attributes:
        block: as given.
        what: as given.
        name: under which its block and the log have it: short, printable, without a slash, and not that of another kind
            of block.
        is_listening: it has not raised. Nothing is owed to whoever has.
        latest: calls that tell it the latest news, by event.
    """

    def __init__(self, block: str, what: str, name: str, step: str) -> None:
        short = printable(name[-_MOST_NAME:].replace("/", "_")) or "unnamed"
        self.name = f"_{short}" if short.startswith(_TAKEN) else short
        self.is_listening = True
        self.latest: dict[str, Call] = {}
        self.block = block
        self._step = step
        self.what = what
        self._times: dict[str, _CallTimes] = {}

    @property
    def step(self) -> str:
        """The event that its next step is."""
        return self._step

    @property
    def num_steps(self) -> int:
        """How many steps it is owed."""
        raise NotImplementedError

    @property
    def is_owed(self) -> bool:
        """Whether it is owed anything."""
        return self.is_listening and bool(self.num_steps or self.latest)

    def take_step(self) -> Call:
        """Return the call that tells it the next step, which it is not owed any more."""
        raise NotImplementedError

    def describe_missed(self) -> str:
        """Say how many steps it has not been told; empty: it has been told all, or has raised."""
        raise NotImplementedError

    def usual_s(self, event: str) -> float:
        """Return how long it usually takes for an event; 0 while that is not known."""
        return self._times[event].usual_s if event in self._times else 0.0

    def latest_s(self, event: str) -> float:
        """Return how long it took for an event the last time; 0 if there was none."""
        return self._times[event].latest_s if event in self._times else 0.0

    def note(self, event: str, took_s: float, now_s: float) -> None:
        """Note how long it has taken for an event, and warn now and then if it takes much of the Runner's time."""
        times = self._times.setdefault(event, _CallTimes())
        if share := times.add(took_s, now_s):
            logger.warning(
                "%s %s takes %.*f s for each %s, %.0f %% of the Runner's time: what it does belongs into a process or "
                "thread of its own",
                *(self.what, self.name, 2 if times.usual_s >= 0.1 else 4, times.usual_s),
                *("training step" if event == _TRAINING_STEP else event, 100 * share),
            )


class ObserverListener(Listener):
    """An observer; its steps are training steps.

    Args:
        observer: who is told.
    """

    def __init__(self, observer: RunObserver) -> None:
        super().__init__(OBSERVERS, "Observer", type(observer).__name__, _TRAINING_STEP)
        self.observer = observer
        self._steps = range(1, 1)
        self._tell: Callable[[RunObserver, int], None] = lambda *_: None

    def hears(self, event: str) -> bool:
        """Tell whether its class, or the observer itself, has a method of its own for an event."""
        method = getattr(self.observer, event, None)
        return getattr(method, "__func__", None) is not getattr(RunObserver, event)

    @property
    def num_steps(self) -> int:
        """How many training steps it is owed."""
        return len(self._steps)

    def owe_steps(self, last: int, tell: Callable[[RunObserver, int], None]) -> None:
        """Owe it all training steps up to this one, counted from 1."""
        first = self._steps.start if self.hears(self.step) else last + 1
        self._steps, self._tell = range(first, last + 1), tell

    def take_step(self) -> Call:
        """Return the call that tells it the next training step."""
        number, self._steps = self._steps[0], self._steps[1:]
        return lambda: self._tell(self.observer, number)

    def describe_missed(self) -> str:
        """Say of how many training steps it has not been told."""
        if not self.num_steps or not self.is_listening:
            return ""
        return f"{self.num_steps:,} training step{'s were' if self.num_steps > 1 else ' was'} not told to {self.name}"


class _QueueListener(Listener):
    """A function; its steps are calls of it, each with something else.

    Args:
        block: that its own block is in.
        what: it is, in words.
        function: is called with what is owed.
        step: what is owed, as a block is named.
    """

    def __init__(self, block: str, what: str, function: Callable[..., None], step: str) -> None:
        super().__init__(block, what, _name_of(function), step)
        self._function = function
        self._calls: deque[tuple[Any, ...]] = deque()
        self._num_dropped = 0

    @property
    def num_steps(self) -> int:
        """How many calls it is owed."""
        return len(self._calls)

    def owe(self, *arguments: Any) -> None:
        """Owe it a call, unless it has raised; of more than can be kept, the oldest is dropped."""
        if not self.is_listening:
            return
        if len(self._calls) == _MOST_MESSAGES:
            self._calls.popleft()
            self._num_dropped += 1
        self._calls.append(arguments)

    def take_step(self) -> Call:
        """Return the next call."""
        return partial(self._function, *self._calls.popleft())

    def describe_missed(self) -> str:
        """Say how many messages it has not been told."""
        num_missed = self.num_steps + self._num_dropped
        if not num_missed or not self.is_listening:
            return ""
        messages = "messages were" if num_missed > 1 else "message was"
        return f"{num_missed:,} {self._step} {messages} not told to {self.name}"


class HandlerListener(_QueueListener):
    """A message handler; its steps are messages.

    Args:
        message_type: of these.
        handler: is called with the Runner and a message.
    """

    def __init__(self, message_type: type, handler: Callable[[Any, Any], None]) -> None:
        super().__init__(MESSAGE_HANDLERS, "Message handler", handler, message_type.__name__)
        self.message_type = message_type


class SlotListener(_QueueListener):
    """A slot; its steps are what signals tell, of all that it is connected to in the order in which it happened.

    Args:
        slot: is called with a payload.
    """

    def __init__(self, slot: Callable[[Any], None]) -> None:
        super().__init__(SLOTS, "Slot", slot, "signal")
        self.slot = slot

    @property
    def step(self) -> str:
        """The name of the signal that it is owed next."""
        return self._calls[0][0] if self._calls else self._step

    def take_step(self) -> Call:
        """Return the call with the next payload."""
        _, payload = self._calls.popleft()
        return partial(self._function, payload)


def _name_of(handler: object) -> str:
    """Return the qualified name of a function or method, or the class's of what else can be called."""
    function = getattr(handler, "func", handler)  # what a functools.partial calls
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else type(function).__name__
