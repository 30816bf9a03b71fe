"""Owns the joining of components by signals of signal-slot-mp, through queues of faster-fifo in shared memory."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sample_profiler.profiling.ranges import profile_range
from sample_profiler.runtime.loop.event_loop import PipeWaiter
from sample_profiler.runtime.loop.transports import MakeWaiter
from sample_profiler.runtime.messages.channels import Channel, Sender
from sample_profiler.runtime.messages.fifo_channels import DealtChannel, FifoChannel, FifoLoop

__all__ = ["FifoTransport", "FifoWaiter", "LookingWaiter"]

logger = logging.getLogger(__name__)

_LOOK_S = 0.05  # at pipes, which nobody can wait for together with a queue; as often as the library's loop wakes up
_QUICK_LOOK_S = 0.002


class FifoWaiter:
    """Waits in the loop of a component for its signals, and looks at pipes and in-process queues now and then.

    Args:
        loop: of the component.
        sources: that it listens to.
    """

    def __init__(self, loop: FifoLoop, sources: Sequence[Any]) -> None:
        self._loop = loop
        self._channels = [source for source in sources if isinstance(source, FifoChannel)]
        self._others = PipeWaiter([source for source in sources if not isinstance(source, FifoChannel)])

    @profile_range("FifoWaiter.wait")
    def wait(self, timeout_s: float) -> list[Any]:
        """Return what has something, channels last."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            ready = self._others.wait(0.0)
            left_s = deadline_s - time.monotonic()
            is_ready = bool(ready) or any(channel.has_pending() for channel in self._channels)
            self._loop.wait(0.0 if is_ready else min(_LOOK_S, left_s))
            ready += [channel for channel in self._channels if channel.has_pending()]
            if ready or left_s <= 0.0:
                return ready


class LookingWaiter(FifoWaiter):
    """Waits for pipes, and looks at the queue now and then: for whoever may not be kept from anything by a lost sender.

    A sender that is killed while it wakes a reader can break that; nobody wakes one that never waits.
    """

    @profile_range("LookingWaiter.wait")
    def wait(self, timeout_s: float) -> list[Any]:
        """Return what has something, channels last."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._loop.take_all()
            channels = [channel for channel in self._channels if channel.has_pending()]
            left_s = 0.0 if channels else deadline_s - time.monotonic()
            ready = self._others.wait(min(_QUICK_LOOK_S, left_s)) + channels
            if ready or left_s <= 0.0:
                return ready


class FifoTransport:
    """Signals between processes, each of which has a loop with a queue of its own."""

    name = "fifo"
    has_locks = True

    def __init__(self) -> None:
        self._loops: dict[str, FifoLoop] = {}

    def make_channel(self, name: str, reader: str, most_values: int) -> Channel:
        """Make a channel in the loop of its reader."""
        return self._loop_of(reader).make_channel(name, most_values)

    def make_shared(self, name: str, readers: Sequence[str], most_values: int) -> tuple[Sender, Sequence[Channel]]:
        """Make a channel for each reader, and one that deals out among them."""
        channels = [self.make_channel(name, reader, most_values) for reader in readers]
        return channels[0] if len(channels) == 1 else DealtChannel(channels), channels

    def open(self) -> None:
        """Make all queues, as large as they have to be."""
        for loop in self._loops.values():
            loop.open()

    def waiter_of(self, component: str) -> MakeWaiter:
        """Return how a component waits: for its queue, if it has one."""
        loop = self._loops.get(component)
        return PipeWaiter if loop is None else partial(FifoWaiter, loop)

    def looking_waiter_of(self, component: str) -> MakeWaiter:
        """Return how to wait in the place of a component without being kept from anything."""
        return partial(LookingWaiter, self._loop_of(component))

    def release(self) -> None:
        """Open queues that were held by who has ended."""
        for name, loop in self._loops.items():
            if loop.signal_queue.release():
                logger.warning("The queue of %s was held by a process that has ended; it is open again", name)

    def describe_locks(self, names: Mapping[int, str]) -> list[str]:
        """Return which queues are held by whom."""
        held = {name: loop.signal_queue.holder for name, loop in self._loops.items()}
        return [
            f"the queue of {name} is held by {names.get(holder, _describe(holder))}"
            for name, holder in held.items()
            if holder
        ]

    def _loop_of(self, component: str) -> FifoLoop:
        if component not in self._loops:
            self._loops[component] = FifoLoop(component)
        return self._loops[component]


def _describe(holder: int) -> str:
    return f"thread {holder}" if holder > 0 else "a process that was killed"
