"""Owns the loop that every process runs: wait for a channel or a timer, hand what came to the component it is for.

One loop serves one component in a process of its own (parallel wiring) or all components in one process (serial
wiring); components cannot tell which. What differs is only how the loop waits: for kernel pipes, or by looking at
in-process queues, where nothing to do means that the run can never go on.
"""

from __future__ import annotations

import errno
import logging
import math
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sample_profiler.errors import SampleProfilerError
from sample_profiler.profiling import Timing, set_timing
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.runtime.loop.turns import Turns
from sample_profiler.runtime.machine.open_files import allow_all_open_files
from sample_profiler.runtime.messages.channels import LocalChannel
from sample_profiler.vocabulary import RECEIVE, TIMERS, WATCH_PROCESSES

__all__ = ["Component", "EventLoop", "Input", "LocalWaiter", "LoopControl", "PipeWaiter", "StalledError", "Timer"]

logger = logging.getLogger(__name__)

_MAX_WAIT_S = 1.0


class StalledError(SampleProfilerError):
    """A serial run in which no component has anything to do: messages were lost or never sent."""


@dataclass(frozen=True)
class Input:
    """A source that a component reads, and the method that takes what came.

    Attributes:
        source: a channel, a report queue or anything with a `fileno` and a `receive`.
        handle: is called with what was received, never with nothing.
        most: how many of a channel's integers it is handed at once; None: everything that is there.
    """

    source: Any
    handle: Callable[[list[Any]], None]
    most: int | None = None


@dataclass
class Timer:
    """Calls `callback` every `interval_s` seconds, the first time one interval after the loop began."""

    interval_s: float
    callback: Callable[[], None]
    due_s: float = field(default=0.0)


class Component(Protocol):
    """What the loop runs. Constructed means ready: the constructor has made everything that the component owns."""

    name: str
    timing: Timing

    def inputs(self) -> Sequence[Input]:
        """Return what the component listens to; asked for when a loop is made, and after each `LoopControl.refresh`."""

    def timers(self) -> Sequence[Timer]:
        """Return what the component does at intervals; asked for once."""

    def gauges(self) -> dict[str, float]:
        """Return what the component can measure of itself at any time, by name: queue depths and the like."""

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Return the methods that may be called from outside while it runs, by name."""

    def start(self) -> None:
        """Do what needs no message to begin; called once, when the loop begins."""

    def wait_block(self) -> str:
        """Name the Timing block of the wait that begins now, after the component that is waited for."""

    def finish(self) -> None:
        """Let go of everything; called once, when the loop has ended, also after an error."""


class Waiter(Protocol):
    """How a loop learns which of its inputs are ready."""

    def wait(self, timeout_s: float) -> list[Any]:
        """Return the ready sources, waiting up to `timeout_s`; may be empty."""


class PipeWaiter:
    """Waits for pipes, reports and process ends in the kernel; does not wait while in-process queues have something."""

    def __init__(self, sources: Sequence[Any]) -> None:
        self._queues = [source for source in sources if isinstance(source, LocalChannel)]
        self._sources = {source.fileno(): source for source in sources if not isinstance(source, LocalChannel)}
        self._poll = select.poll()
        self._has_told_of_limit = False
        for descriptor in self._sources:
            self._poll.register(descriptor, select.POLLIN)

    @profile_range("PipeWaiter.wait")
    def wait(self, timeout_s: float) -> list[Any]:
        """Return the readable sources, in-process queues last."""
        queues = [queue for queue in self._queues if queue.has_pending()]
        timeout_ms = 0 if queues else max(0.0, timeout_s) * 1000
        try:
            events = self._poll.poll(timeout_ms)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # The limit of open files is below what there is to listen to.
            if not self._has_told_of_limit:  # who lowers it does so at every step
                self._has_told_of_limit = True
                logger.warning("The limit of open files was lowered, by an environment or what it uses; it is raised")
            allow_all_open_files()
            events = self._poll.poll(timeout_ms)
        return [*(self._sources[descriptor] for descriptor, _ in events), *queues]


class LocalWaiter:
    """Looks at in-process queues, in the order in which components and their inputs were given."""

    def __init__(self, sources: Sequence[LocalChannel]) -> None:
        self._sources = list(sources)

    @profile_range("LocalWaiter.wait")
    def wait(self, timeout_s: float) -> list[Any]:  # noqa: ARG002 (nobody else could fill a queue meanwhile)
        """Return the queues with something in them.

        Raises:
            StalledError: nothing is in any queue; in one process nobody else will ever put something there.
        """
        ready = [source for source in self._sources if source.has_pending()]
        if not ready:
            raise StalledError("the serial run has stalled: no component has anything left to do")
        return ready


class LoopControl:
    """Ends a loop, or changes what it waits for; is there before the loop is, for the components that run in it.

    Attributes:
        is_stopping: whether the loop is to end before its next wait.
        is_outdated: whether components listen to something else than the loop waits for.
    """

    def __init__(self) -> None:
        self.is_stopping = False
        self.is_outdated = False

    def stop(self) -> None:
        """End the loop before its next wait."""
        self.is_stopping = True

    def refresh(self) -> None:
        """Have the components asked anew what they listen to, before anything else is read."""
        self.is_outdated = True


class EventLoop:
    """Runs one or several components until somebody stops it.

    Args:
        components: who runs here, in the order of their turns.
        make_waiter: `PipeWaiter` or `LocalWaiter`.
        beat: is called with every turn of the loop; looks after child processes.
        alive: is called with every turn of a component, as a sign of life of the thread.
        turns: counts whose turn it is; needed where several components run here.
        timers: further ones, of the first component.
        control: with which components end it; None: nobody has one but this loop itself.
        on_begun: is called with the name of each component that has been started.

    Attributes:
        control: ends this loop.
        active: the component whose turn it is.
        unhandled: sources that had something in the turn in which the loop was stopped, and were not read any more.
        is_handling: whether a component is at work on what it was handed; stays so if it raised.
    """

    def __init__(
        self,
        components: Sequence[Component],
        make_waiter: Callable[[Sequence[Any]], Waiter],
        beat: Callable[[], None] | None = None,
        turns: Turns | None = None,
        timers: Sequence[Timer] = (),
        alive: Callable[[], None] = lambda: None,
        control: LoopControl | None = None,
        on_begun: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.control = control or LoopControl()
        self._components = list(components)
        self.active = self._components[0]
        self._turns = turns
        self._make_waiter = make_waiter
        self._listen()
        self._timers = [(c, timer) for c in self._components for timer in c.timers()]
        self._timers += [(self._components[0], timer) for timer in timers]
        self._beat = beat
        self._alive = alive
        self._on_begun = on_begun
        self._has_begun = False
        self._next_due_s = math.inf
        self.unhandled: list[Any] = []
        self.is_handling = False

    def begin_with(self, sources: Sequence[Any]) -> None:
        """Read these sources in the first turn, whatever else has something: a loop that was stopped goes on."""
        self.unhandled = list(sources)

    def stop(self) -> None:
        """End the loop before its next wait."""
        self.control.stop()

    def _listen(self) -> None:
        """Ask the components what they listen to."""
        self.control.is_outdated = False
        self._handlers = {id(i.source): (c, i) for c in self._components for i in c.inputs()}
        self._waiter = self._make_waiter([i.source for _, i in self._handlers.values()])

    def start(self) -> None:
        """Start every component, and the intervals of the timers."""
        for component in self._components:
            if self.control.is_stopping:  # the others may have a long way to their start
                break
            self.activate(component)
            component.start()
            self._on_begun(component.name)
        now_s = time.monotonic()
        for _, timer in self._timers:
            timer.due_s = now_s + timer.interval_s
            self._next_due_s = min(self._next_due_s, timer.due_s)

    def run(self) -> None:
        """Start every component, then wait and dispatch until stopped."""
        self.start()
        while not self.control.is_stopping:
            self._turn()

    def _turn(self) -> None:
        waiting, control = self._components[0], self.control
        if control.is_outdated:
            self._listen()
        self.activate(waiting)
        with waiting.timing.add_time(waiting.wait_block()):
            ready = self.unhandled or self._waiter.wait(min(_MAX_WAIT_S, self._next_due_s - time.monotonic()))
        self.unhandled = []
        if self._beat is not None:
            with waiting.timing.add_time(WATCH_PROCESSES):
                self._beat()
        for number, source in enumerate(ready):
            if control.is_stopping:
                self.unhandled = ready[number:]
                return  # what is still there stays there: whoever stopped the loop may want to read it
            if control.is_outdated:
                self._listen()
            if id(source) not in self._handlers:
                continue  # nobody listens to it any more
            component, receiver = self._handlers[id(source)]
            self.activate(component)
            with component.timing.add_time(RECEIVE):
                values = source.receive() if receiver.most is None else source.receive(receiver.most)
            if values:
                self.is_handling = True
                receiver.handle(values)
                self.is_handling = False
        now_s = time.monotonic()
        if now_s >= self._next_due_s:
            self._fire_timers(now_s)

    def _fire_timers(self, now_s: float) -> None:
        for component, timer in self._timers:
            if now_s >= timer.due_s and not self.control.is_stopping:
                timer.due_s = now_s + timer.interval_s
                self.activate(component)
                with component.timing.add_time(TIMERS):
                    timer.callback()
        self._next_due_s = min(timer.due_s for _, timer in self._timers)

    def activate(self, component: Component) -> None:
        """Begin the turn of a component: what is recorded from now on without naming a Timing is its."""
        self._alive()
        if component is not self.active or not self._has_begun:
            self._has_begun = True
            self.active = component
            set_timing(component.timing, process_wide=True)
        if self._turns is not None:
            self._turns.begin(component.name)
