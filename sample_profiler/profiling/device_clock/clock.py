"""Device time: how long an accelerator worked on what a block gave it, measured without ever waiting for it.

A GPU runs behind the host: a block that launches work is over long before the work is, so its host time says nothing of
the device. A block with ``device=True`` notes an event on the device's stream when it is entered and one when it is
left. Both are looked at later, by `poll`: when the device has passed them, the time between them is added to the block.
So device time is the time on the device's own line from where it reached the block to where it left it, gaps in which
it had nothing to do included.

Nothing here waits. Events come from a bounded pool; a pass that finds none, or whose events the device has not reached
when the recording ends, is counted as unresolved and not measured.

The exception is the diagnostic mode (``synchronize=True``), in which the host waits for the device on both sides of
each such block. Device times then are those of the block's own work alone, but the program is another one: it is
slower, and host times include the waiting. Titles and metadata say so.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from sample_profiler.errors import TimingError
from sample_profiler.profiling.recorder.choice import TWIN

__all__ = [
    "DISTORTED",
    "DeviceClock",
    "NoDevice",
    "describe_device_time",
    "device_clock_for",
    "make_device_block",
    "mark_distorted",
    "poll",
    "set_device_clock",
    "settle",
]

DISTORTED = "device-synchronised: timings are distorted"
"""What titles and metadata say of a recording for which the host waited for the device."""

MAX_EVENTS = 4096
"""How many events a process holds at most: two for each pass that is open, or that the device has not reached."""

Event = Any
Path = tuple[str, ...]


class Measured(Protocol):
    """What blocks record in, a Timing, as far as its blocks measure a device."""

    name: str

    def add_device_time(self, path: tuple[str, ...], duration_ns: int) -> None:
        """Add to a block what the device took for a pass."""

    def add_unresolved(self, path: tuple[str, ...], num_passes: int) -> None:
        """Count passes of a block that the device was not seen to finish."""


class DeviceClock(Protocol):
    """Where a device's time comes from. Events are the clock's own; they are used again and again."""

    def make_event(self) -> Event:
        """Return a new event."""

    def record(self, event: Event) -> int:
        """Put the event behind everything given to the current stream so far; return a number for that stream."""

    def is_done(self, event: Event) -> bool:
        """Tell, without waiting, whether the device has passed the event."""

    def elapsed_ns(self, start: Event, end: Event) -> int:
        """Return the time from one event that is done to another."""

    def synchronize(self) -> None:
        """Wait until the device has done everything given to it. Called in the diagnostic mode only."""


class NoDevice:
    """The clock of a process without an accelerator: blocks stay plain ones."""


class _Pass(NamedTuple):
    """A pass that is over for the host, and that the device may still have to reach."""

    timing: Measured
    path: Path
    start: Event
    end: Event


class _DeviceMeter:
    """Owns the events of one clock: those that are free, and those that wait for the device.

    The hot path takes no lock: it appends to, and pops from, deques.
    """

    def __init__(self, clock: DeviceClock, *, synchronize: bool, max_events: int) -> None:
        self.is_synchronizing = synchronize
        self._clock = clock
        self._free: deque[Event] = deque()
        self._num_unmade = max_events
        # By stream, whose work is done in order: the first that is not done says that none behind it is.
        self._pending: dict[int, deque[_Pass]] = {}
        self._resolving = threading.RLock()

    def begin(self) -> Event | None:
        """Return an event at the beginning of a pass, or None if there is none to be had."""
        if self.is_synchronizing:
            self._synchronize()
        event = self._take()
        if event is None:
            self.poll()
            event = self._take()
        if event is not None and self._record(event) is None:
            self._free.append(event)
            return None
        return event

    def end(self, timing: Measured, path: Path, start: Event | None) -> None:
        """Note the end of a pass that began with `start`."""
        end = self._take() if start is not None else None
        stream = self._record(end) if end is not None else None
        if stream is None:
            self._free.extend(event for event in (start, end) if event is not None)
            timing.add_unresolved(path, 1)
            return
        pending = self._pending.get(stream)
        if pending is None:
            pending = self._pending.setdefault(stream, deque())
        pending.append(_Pass(timing, path, start, end))
        if self.is_synchronizing:
            self._synchronize()
            self.poll()

    def poll(self) -> None:
        """Add the times of all passes that the device is done with."""
        if not self._resolving.acquire(blocking=False):
            return  # another thread is at it
        try:
            for pending in list(self._pending.values()):
                self._resolve(pending)
        finally:
            self._resolving.release()

    def settle(self, timing: Measured | None) -> None:
        """Poll for the last time, and count what is left of one Timing, or of all, as unresolved."""
        with self._resolving:
            self.poll()
            for pending in list(self._pending.values()):
                for _ in range(len(pending)):
                    one = pending.popleft()
                    if timing is not None and one.timing is not timing:
                        pending.append(one)
                    else:
                        self._free.extend((one.start, one.end))
                        one.timing.add_unresolved(one.path, 1)

    def _take(self) -> Event | None:
        with suppress(IndexError):
            return self._free.popleft()
        if self._num_unmade <= 0:
            return None
        self._num_unmade -= 1
        with suppress(RuntimeError):  # the device is in trouble: the pass counts as unresolved
            return self._clock.make_event()
        return None

    def _synchronize(self) -> None:
        with suppress(RuntimeError):
            self._clock.synchronize()

    def _record(self, event: Event) -> int | None:
        try:
            return self._clock.record(event)
        except RuntimeError:
            return None  # the device is in trouble, of which the program will hear, but not from here

    def _resolve(self, pending: deque[_Pass]) -> None:
        clock = self._clock
        while True:
            # Popped before it is looked at: a signal handler that polls meanwhile sees it nowhere, not twice.
            try:
                one = pending.popleft()
            except IndexError:
                return
            try:
                if not (clock.is_done(one.end) and clock.is_done(one.start)):
                    pending.appendleft(one)
                    return
                duration_ns = clock.elapsed_ns(one.start, one.end)
            except RuntimeError:
                one.timing.add_unresolved(one.path, 1)
            else:
                one.timing.add_device_time(one.path, max(0, duration_ns))
            self._free.extend((one.start, one.end))


class _DeviceBlock:
    """A pass through a block, on the host and on the device."""

    __slots__ = ("_block", "_meter", "_start", "_timing")

    def __init__(self, meter: _DeviceMeter, timing: Measured, block: Any) -> None:
        self._meter = meter
        self._timing = timing
        self._block = block

    def __enter__(self) -> None:
        self._block.__enter__()
        self._start = self._meter.begin()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._meter.end(self._timing, self._block.path(), self._start)
        finally:
            self._block.__exit__(exc_type, exc, traceback)


_meter: _DeviceMeter | None = None
_abandoned: list[_DeviceMeter] = []


def make_device_block(timing: Measured, block: Any) -> AbstractContextManager[None]:
    """Return a block that measures the device, too; the block itself in a process that has none.

    Args:
        timing: Where the block records.
        block: A block of that Timing, not entered yet; once entered, its ``path()`` is the keys from the root.
    """
    meter = _meter
    if meter is None or not hasattr(block, "path"):  # what stands for a block while recording is off has none
        return block  # type: ignore[no-any-return]
    if meter.is_synchronizing:
        mark_distorted(timing)
    return _DeviceBlock(meter, timing, block)


def mark_distorted(timing: Measured) -> None:
    """Let the title of a Timing say so if this process waits for its device; else do nothing."""
    meter = _meter
    if meter is not None and meter.is_synchronizing and DISTORTED not in timing.name:
        timing.name += f" [{DISTORTED}]"


def poll() -> None:
    """Add the device times that are known by now to their blocks. Cheap enough for every turn of a loop."""
    meter = _meter
    if meter is not None:
        meter.poll()


def settle(timing: Measured | None = None) -> None:
    """End the measuring of what has been left so far: what the device has not reached by now counts as unresolved.

    Args:
        timing: The Timing that ends; None: all of them.
    """
    meter = _meter
    if meter is not None:
        meter.settle(timing)


def set_device_clock(clock: DeviceClock | NoDevice, *, synchronize: bool = False, max_events: int = MAX_EVENTS) -> None:
    """Measure the blocks that this process enters with ``device=True`` from now on; settle those before.

    Args:
        clock: From `device_clock_for`, or a `NoDevice`, with which such blocks are plain ones.
        synchronize: Wait for the device on both sides of each such block: a diagnosis that distorts all timings.
        max_events: How many events may be held at once.
    """
    global _meter
    settle()
    _meter = (
        None if isinstance(clock, NoDevice) else _DeviceMeter(clock, synchronize=synchronize, max_events=max_events)
    )
    if TWIN == "compiled":
        from sample_profiler.profiling.recorder import _core

        _core.set_device(_meter is not None)  # without one, the core makes plain blocks by itself


def device_clock_for(device: str) -> DeviceClock | NoDevice:
    """Return the clock of a device: ``cpu``, ``cuda`` or ``cuda:0``. PyTorch is imported for the latter two alone.

    Raises:
        TimingError: There is no clock for this device, or PyTorch sees no such device.
    """
    kind = device.partition(":")[0]
    if kind == "cpu":
        return NoDevice()
    if kind == "cuda":
        from sample_profiler.profiling.device_clock.cuda import CudaDevice

        return CudaDevice(device)
    raise TimingError(f"there is no device clock for {device!r}; allowed are 'cpu', 'cuda' and 'cuda:<index>'")


def describe_device_time() -> str:
    """Return how this process measures its device, for metadata; empty where it does not."""
    meter = _meter
    if meter is None:
        return ""
    return DISTORTED if meter.is_synchronizing else "device events"


def _forget_in_child() -> None:
    """Let a forked process begin without a device: it must not touch, nor even free, its parent's events."""
    global _meter
    if _meter is not None:
        _abandoned.append(_meter)
        _meter = None


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_in_child)
