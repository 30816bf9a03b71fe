"""Owns channels that are signals of signal-slot-mp, which travel through queues of faster-fifo.

Each component has a loop with one queue, and each of its channels is an object in that loop whose signal is connected
to its slot: whoever sends emits the signal, in whatever process, and the loop of the reader calls the slot there.

The library's own loop waits by the clock that can be set, and drops what a queue has no room for. `FifoLoop` is told
how long to wait, and has a queue that raises instead.
"""

from __future__ import annotations

import pickle
from array import array
from collections import deque
from collections.abc import Iterable, Sequence

from signal_slot.signal_slot import EventLoop, EventLoopObject, Timer, signal

from sample_profiler.profiling.ranges import profile_range
from sample_profiler.runtime.messages.channels import Channel
from sample_profiler.runtime.messages.fifo_queue import FifoQueue

__all__ = ["DealtChannel", "FifoChannel", "FifoLoop"]

_SENT = "sent"
_INT32 = "i"


class _Deadline(Timer):
    """Says how long the next iteration of a loop may wait."""

    def __init__(self, loop: EventLoop) -> None:
        self.left_s = 0.0
        super().__init__(loop, 0.0, "deadline")

    def next_timeout(self) -> float:
        return self.left_s

    def remaining_time(self) -> float:
        return self.left_s

    def fire(self) -> None:
        """Nobody listens: our own loop has timers, by a clock that cannot be set."""


class FifoLoop(EventLoop):
    """The loop of one component, and the queue of all signals to it.

    Args:
        component: whose loop it is.
    """

    def __init__(self, component: str) -> None:
        super().__init__(component, serial_mode=True)  # for want of a size; `open` makes the queue
        self._channels: list[FifoChannel] = []
        self.default_timer.stop()
        self._deadline = _Deadline(self)

    def make_channel(self, name: str, most_values: int) -> FifoChannel:
        """Make a channel that this component reads.

        Args:
            name: other than those of the component's other channels.
            most_values: that are in it at once.
        """
        channel = FifoChannel(self, name, most_values)
        self._channels.append(channel)
        return channel

    def open(self) -> None:
        """Make the queue, with room for as many signals as there are values in all channels, and connect these.

        Raises:
            ConfigError: there is no such queue on this machine.
        """
        self.signal_queue = FifoQueue(self.object_id, sum(channel.most_bytes for channel in self._channels))
        self.receiver_queues[self.object_id] = self.signal_queue
        for channel in self._channels:
            channel.connect(_SENT, channel.take)

    @profile_range("FifoLoop.wait")
    def wait(self, timeout_s: float) -> None:
        """Take all signals that are there, or wait for some, and hand them to their channels."""
        self._deadline.left_s = max(0.0, timeout_s)
        self.process_events()

    def take_all(self) -> None:
        """Hand all signals that are there to their channels."""
        while self.signal_queue.qsize():  # at once the library takes what fits into the memory that it has for it
            self.wait(0.0)


class FifoChannel(EventLoopObject):
    """A channel to one component; made by its loop.

    Values are 32-bit integers.
    """

    def __init__(self, loop: FifoLoop, name: str, most_values: int) -> None:
        super().__init__(loop, name)
        self._most_values = most_values
        self._values: deque[int] = deque()

    @signal  # type: ignore[untyped-decorator]  # of a library without type hints
    def sent(self) -> None:
        """Emitted with values, as bytes."""

    def take(self, data: bytes) -> None:
        """Keep values until they are received: the slot, in the process of the reader."""
        self._values.extend(array(_INT32, data))

    @property
    def most_bytes(self) -> int:
        """How many bytes there are at most in the queue: where each value has a signal of its own."""
        message = self.object_id, _SENT, (array(_INT32, [0]).tobytes(),)
        return self._most_values * (len(pickle.dumps(message)) + FifoQueue.HEADER_BYTES)

    @profile_range("FifoChannel.send")
    def send(self, values: Iterable[int]) -> None:
        """Append `values`, which stay together.

        Raises:
            MessageError: there is no room for them: more were sent than there are.
        """
        if data := array(_INT32, values).tobytes():
            self.emit(_SENT, data)

    @profile_range("FifoChannel.receive")
    def receive(self, most: int | None = None) -> list[int]:
        """Take everything that is there, or the `most` oldest of it; in the process of the reader."""
        self.event_loop.take_all()
        num_values = len(self._values) if most is None else min(most, len(self._values))
        return [self._values.popleft() for _ in range(num_values)]

    def has_pending(self) -> bool:
        """Tell whether values have come that were not received yet."""
        return bool(self._values)

    def clear(self) -> None:
        """Drop what is on its way to a reader that has ended, in this and all its other channels.

        Raises:
            TimeoutError: somebody still sends.
        """
        self.event_loop.signal_queue.renew()


class DealtChannel:
    """Deals values out among several readers: where one wants to wait for all of its signals, it has to be one queue.

    Args:
        channels: of the readers.
    """

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._channels = channels

    def send(self, values: Iterable[int]) -> None:
        """Append each value to the channel of the reader whose turn its number is."""
        dealt: list[list[int]] = [[] for _ in self._channels]
        for value in values:
            dealt[value % len(dealt)].append(value)
        for channel, own in zip(self._channels, dealt, strict=True):
            if own:
                channel.send(own)
