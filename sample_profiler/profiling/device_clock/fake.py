"""A device whose time passes when somebody says so: for tests of what measures devices, without one."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FakeDevice"]


@dataclass
class _FakeEvent:
    """An event; `time_ns` is when the device passes it, by its own plan."""

    time_ns: int = 0


class FakeDevice:
    """A device with streams that do one thing after another, each independent of the others.

    Attributes:
        now_ns: The device's time.
        stream: The current stream; set it to use another.
        is_stuck: Whether no event is ever done from now on.
        is_failing: Whether every call fails, as after an error on a real device.
        num_events: How many events have been made.
        num_records: How often one has been put on a stream.
        num_queries: How often somebody has asked whether one is done.
        num_synchronizations: How often somebody has waited for the device.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self.stream = 0
        self.is_stuck = False
        self.is_failing = False
        self.num_events = 0
        self.num_records = 0
        self.num_queries = 0
        self.num_synchronizations = 0
        self._busy_until_ns: dict[int, int] = {}

    def launch(self, duration_ns: int) -> None:
        """Give the current stream work; the host goes on at once."""
        self._busy_until_ns[self.stream] = self._end_of_stream_ns() + duration_ns

    def advance(self, duration_ns: int) -> None:
        """Let the device's time pass."""
        self.now_ns += duration_ns

    def make_event(self) -> _FakeEvent:
        """Return a new event."""
        self.num_events += 1
        return _FakeEvent()

    def record(self, event: _FakeEvent) -> int:
        """Put the event behind everything on the current stream."""
        self._check()
        self.num_records += 1
        event.time_ns = self._end_of_stream_ns()
        return self.stream

    def is_done(self, event: _FakeEvent) -> bool:
        """Tell whether the device has passed the event."""
        self._check()
        self.num_queries += 1
        return not self.is_stuck and event.time_ns <= self.now_ns

    def elapsed_ns(self, start: _FakeEvent, end: _FakeEvent) -> int:
        """Return the time between two events.

        Raises:
            RuntimeError: One of them is not done, as on a real device.
        """
        if not (self.is_done(start) and self.is_done(end)):
            raise RuntimeError("an event is not done")
        return end.time_ns - start.time_ns

    def synchronize(self) -> None:
        """Let time pass until every stream is done."""
        self._check()
        self.num_synchronizations += 1
        self.now_ns = max(self.now_ns, *self._busy_until_ns.values(), 0)

    def _end_of_stream_ns(self) -> int:
        return max(self.now_ns, self._busy_until_ns.get(self.stream, 0))

    def _check(self) -> None:
        if self.is_failing:
            raise RuntimeError("the device has failed")
