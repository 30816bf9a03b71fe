"""Owns the ways in which the components of a run are joined: what channels are made of, and how a loop waits for them.

In-process queues and kernel pipes are here; queues in shared memory, whose libraries not every run needs, in
`fifo_transport`. Components cannot tell which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sample_profiler.runtime.loop.event_loop import LocalWaiter, PipeWaiter, Waiter
from sample_profiler.runtime.messages.channels import Channel, LocalChannel, PipeChannel, Sender

__all__ = ["LocalTransport", "MakeWaiter", "PipeTransport", "Transport"]

MakeWaiter = Callable[[Sequence[Any]], Waiter]
"""Makes a loop's way to wait for its sources."""


class Transport(Protocol):
    """Makes the channels of a run.

    Attributes:
        name: as `--transport` gives it.
        has_locks: whether a process that is killed may leave something locked, until `release`.
    """

    name: str
    has_locks: bool

    def make_channel(self, name: str, reader: str, most_values: int) -> Channel:
        """Make a channel that one component reads.

        Args:
            name: other than those of its readers' other channels.
            reader: the component.
            most_values: that are in it at once.

        Raises:
            ConfigError: it cannot have room for them.
        """

    def make_shared(self, name: str, readers: Sequence[str], most_values: int) -> tuple[Sender, Sequence[Channel]]:
        """Make a channel that several components read, each a part of what comes; return its two sides.

        Args:
            name: other than those of its readers' other channels.
            readers: the components.
            most_values: that are in it at once.

        Returns:
            To send to, and for each reader what it receives from.
        """

    def open(self) -> None:
        """Let messages travel; called once all channels are made, before anything is sent.

        Raises:
            ConfigError: this machine has no way to do so.
        """

    def waiter_of(self, component: str) -> MakeWaiter:
        """Return how the loop of a component waits, in the process that it runs in."""

    def looking_waiter_of(self, component: str) -> MakeWaiter:
        """Return how somebody waits in the place of a component whom no lost process may keep from anything."""

    def release(self) -> None:
        """Open what processes have left locked that have ended; waits for nobody.

        Raises:
            MessageError: messages cannot travel any more.
        """

    def describe_locks(self, names: Mapping[int, str]) -> list[str]:
        """Return what is locked now, and by whom, in words.

        Args:
            names: of processes, by their numbers.
        """


class LocalTransport:
    """In-process queues: the serial wiring."""

    name = "none"
    has_locks = False

    def make_channel(self, name: str, reader: str, most_values: int) -> Channel:  # noqa: ARG002
        """Make a channel; there is always room in it."""
        return LocalChannel()

    def make_shared(self, name: str, readers: Sequence[str], most_values: int) -> tuple[Sender, Sequence[Channel]]:
        """Make a channel, which all readers share."""
        channel = self.make_channel(name, "", most_values)
        return channel, [channel] * len(readers)

    def open(self) -> None:
        """Messages travel at once."""

    def waiter_of(self, component: str) -> MakeWaiter:  # noqa: ARG002
        """Return the way in which all components together wait."""
        return LocalWaiter

    def looking_waiter_of(self, component: str) -> MakeWaiter:
        """Return how a component waits."""
        return self.waiter_of(component)

    def release(self) -> None:
        """Nothing is ever locked."""

    def describe_locks(self, names: Mapping[int, str]) -> list[str]:  # noqa: ARG002
        """Return nothing."""
        return []


class PipeTransport(LocalTransport):
    """Kernel pipes: a process for each component."""

    name = "pipe"

    def make_channel(self, name: str, reader: str, most_values: int) -> Channel:  # noqa: ARG002
        """Make a pipe."""
        return PipeChannel(most_values)

    def waiter_of(self, component: str) -> MakeWaiter:  # noqa: ARG002
        """Return the way in which every component waits."""
        return PipeWaiter
