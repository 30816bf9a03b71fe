"""Owns the ways in which components talk: small records between components, objects from a component to the Runner.

Both kinds exist as kernel pipes (parallel wiring) and as in-process queues (serial wiring) behind one interface; the
records also as signals in queues of shared memory (`fifo_channels`).

Why pipes: a write of at most PIPE_BUF bytes is atomic for any number of writers, there is no lock that a killed process
could take to its grave, the kernel wakes the reader, and any number of channels can be waited for at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import select
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from multiprocessing import reduction
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from sample_profiler.errors import ConfigError
from sample_profiler.profiling.ranges import profile_range

__all__ = [
    "Channel",
    "LocalChannel",
    "LocalReports",
    "PipeChannel",
    "PipeEnd",
    "PipeReports",
    "Reports",
    "Sender",
    "make_pipe",
]

_READ_BYTES = 1 << 20
_REPORT_BYTES = 1 << 18
_BYTES_PER_VALUE = 4
_REPORT_READ_BYTES = 1 << 16
_LOOK_INTERVAL_MS = 100


class Sender(Protocol):
    """What a channel is to those who send: a queue of small integers (slots, groups), any number of writers."""

    def send(self, values: Iterable[int]) -> None:
        """Append `values`; those of one call to one reader stay together up to 1,024 of them."""


class Channel(Sender, Protocol):
    """A queue of small integers: any number of writers, and readers of whom each takes what no other has taken."""

    def receive(self, most: int | None = None) -> list[int]:
        """Take everything that is there, or the `most` oldest of it, oldest first, without waiting."""

    def clear(self) -> None:
        """Drop everything that is there; for another process than the reader's, which has ended."""


class Reports(Protocol):
    """A queue of picklable objects from one component to the Runner."""

    def send(self, report: object) -> None:
        """Append a report."""

    def receive(self) -> list[Any]:
        """Take everything that is there, oldest first, without waiting."""


class LocalChannel:
    """A channel or report queue within one process.

    Args:
        most_values: as of a `PipeChannel`; here there is always room.
    """

    def __init__(self, most_values: int = 0) -> None:  # noqa: ARG002
        self._values: deque[Any] = deque()

    @profile_range("LocalChannel.send")
    def send(self, values: Iterable[int]) -> None:
        """Append `values`."""
        self._values.extend(values)

    @profile_range("LocalChannel.receive")
    def receive(self, most: int | None = None) -> list[int]:
        """Take everything that is there, or the `most` oldest of it."""
        num_values = len(self._values) if most is None else min(most, len(self._values))
        return [self._values.popleft() for _ in range(num_values)]

    def clear(self) -> None:
        """Drop everything that is there."""
        self._values.clear()

    def has_pending(self) -> bool:
        """Tell whether `receive` would return something."""
        return bool(self._values)

    def pending(self) -> list[Any]:
        """Return what `receive` would, and leave it there."""
        return list(self._values)


class LocalReports(LocalChannel):
    """A report queue within one process."""

    def send(self, report: object) -> None:
        """Append one report."""
        self._values.append(report)


class PipeEnd:
    """One end of a pipe that a process being spawned can inherit."""

    _all: ClassVar[weakref.WeakSet[PipeEnd]] = weakref.WeakSet()

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._all.add(self)

    @classmethod
    def all_open(cls) -> list[PipeEnd]:
        """Return all ends in this process that are not closed."""
        return [end for end in list(cls._all) if end.fileno() >= 0]

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def close(self) -> None:
        """Close the end in this process; closing twice is fine, and so is that somebody else has closed all files."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        # A program may run many trainings, one after another.
        self.close()

    def __reduce__(self) -> tuple[Callable[..., PipeEnd], tuple[Any]]:
        """Travel as a descriptor that the spawned process inherits."""
        return _inherit_end, (reduction.DupFd(self._descriptor),)


def _inherit_end(descriptor: Any) -> PipeEnd:
    inherited: int = descriptor.detach()
    # What a spawned process is handed would otherwise pass on to every game that it starts.
    os.set_inheritable(inherited, False)
    return PipeEnd(inherited)


def make_pipe(num_bytes: int = 0) -> tuple[PipeEnd, PipeEnd]:
    """Make a pipe whose read end never blocks; return (read end, write end).

    A user's pipes share a quota, 64 MiB as it comes (`fs.pipe-user-pages-soft`), without which new ones have two pages.
    So none is larger than it has to be.

    Args:
        num_bytes: that it should have room for, if the quota is not used up: see `_room_in`.
    """
    read, write = os.pipe()
    os.set_blocking(read, False)
    if _room_in(write) < num_bytes and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(PermissionError):
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, num_bytes)
    return PipeEnd(read), PipeEnd(write)


def _room_in(descriptor: int) -> int:
    """Return how many bytes a pipe has room for; infinite where the system does not tell."""
    return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) if hasattr(fcntl, "F_GETPIPE_SZ") else sys.maxsize


class _Room(threading.local):
    """Where a thread reads into: `os.read` would allocate room for a whole pipe at each call, in 20 microseconds."""

    def __init__(self) -> None:
        self.values: npt.NDArray[np.int32] = np.empty(_READ_BYTES // _BYTES_PER_VALUE, dtype=np.int32)


_room = _Room()


class PipeChannel:
    """A channel between processes. Values are 32-bit integers; writes are atomic, so none is ever cut in two.

    Args:
        most_values: that are in it at once. There is always room for them: two components that talk to each other
            would else wait for each other for ever.

    Raises:
        ConfigError: the system gives this user no pipe that is large enough.
    """

    def __init__(self, most_values: int = 1024) -> None:
        # A write begins another page where the latest one has no room for all of it, so half of a page may stay empty.
        num_bytes = 2 * _BYTES_PER_VALUE * most_values + select.PIPE_BUF
        self._read, self._write = make_pipe(num_bytes)
        if (room := _room_in(self._write.fileno())) < num_bytes:
            problem = (
                f"{most_values:,} trajectories need pipes of {num_bytes:,} bytes, and the system gives this user no "
                f"more than {room:,}: end other runs, have fs.pipe-user-pages-soft raised, or use fewer --num_workers, "
                "--num_envs_per_worker or --num_batches_to_accumulate, or a larger --rollout"
            )
            raise ConfigError([problem])

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there is something to receive."""
        return self._read.fileno()

    @profile_range("PipeChannel.send")
    def send(self, values: Iterable[int]) -> None:
        """Append `values`, waiting while the pipe is full."""
        data = np.fromiter(values, dtype=np.int32).tobytes()
        for start in range(0, len(data), select.PIPE_BUF):
            os.write(self._write.fileno(), data[start : start + select.PIPE_BUF])

    @profile_range("PipeChannel.receive")
    def receive(self, most: int | None = None) -> list[int]:
        """Take everything that is there, or the `most` oldest of it; empty when another reader was faster."""
        room = _room.values
        try:
            num_bytes = os.readv(self._read.fileno(), [room[:most].data])
        except BlockingIOError:
            return []
        values: list[int] = room[: num_bytes // room.itemsize].tolist()
        return values

    def clear(self) -> None:
        """Drop everything that is there."""
        while self.receive():
            pass


class PipeReports:
    """Objects from one process to another, length-prefixed pickles in a pipe that only one of them writes to.

    A child killed in the middle of a report leaves a partial one, which the Runner never sees.

    Args:
        ends: of the pipe, the one to read from first; None: of a new one.

    Attributes:
        is_abandoned: tells whether nobody will read any more; set by whoever can find out. Nobody has to wait then.
    """

    def __init__(self, ends: tuple[PipeEnd, PipeEnd] | None = None) -> None:
        self._read, self._write = ends or make_pipe(_REPORT_BYTES)
        os.set_blocking(self._write.fileno(), False)
        self._buffer = bytearray()
        self._unsent = bytearray()
        self._sending = threading.Lock()
        self.is_abandoned: Callable[[], bool] = lambda: False

    def __reduce__(self) -> tuple[type[PipeReports], tuple[tuple[PipeEnd, PipeEnd]]]:
        """Travel as the ends of the pipe."""
        return PipeReports, ((self._read, self._write),)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there is something to receive."""
        return self._read.fileno()

    @profile_range("PipeReports.send")
    def send(self, report: object) -> None:
        """Append a report, waiting while the pipe is full; one that has no room and is abandoned is dropped."""
        data = _with_length(report)
        with self._sending:
            # The rest of an earlier one first: a reader that comes back would take what follows for that.
            if self._write_all():
                self._unsent += data
                self._write_all()

    def post(self, report: object) -> None:
        """Append a report without waiting: what there is no room for is kept, and `flush` sends it on."""
        data = _with_length(report)
        with self._sending:
            self._unsent += data
            self._write_some()

    def flush(self) -> bool:
        """Send what was kept as far as there is room now; tell whether all of it is sent."""
        with self._sending:
            return self._write_some()

    def send_if_possible(self, report: object) -> bool:
        """Append a report of at most `PIPE_BUF` bytes if nothing has to be waited for; tell whether it was appended."""
        data = _with_length(report)
        if len(data) > select.PIPE_BUF or not self._sending.acquire(blocking=False):
            return False
        try:
            if self._unsent:
                return False
            os.write(self._write.fileno(), data)  # at most PIPE_BUF bytes are written as a whole or not at all
            return True
        except BlockingIOError:
            return False
        finally:
            self._sending.release()

    @profile_range("PipeReports.receive")
    def receive(self) -> list[Any]:
        """Take every whole report that is there."""
        while True:
            try:
                data = os.read(self._read.fileno(), _REPORT_READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                break
            self._buffer += data
        reports = []
        while (report := self._take_report()) is not None:
            reports.append(report[0])
        return reports

    def _write_all(self) -> bool:
        """Write what is unsent, waiting for room; tell whether that is done: not if the reports are abandoned."""
        poll = select.poll()
        poll.register(self._write.fileno(), select.POLLOUT)
        while not self._write_some():
            if self.is_abandoned():
                return False
            poll.poll(_LOOK_INTERVAL_MS)
        return True

    def _write_some(self) -> bool:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._write.fileno(), self._unsent)]
        except BlockingIOError:
            return False
        return True

    def _take_report(self) -> tuple[Any] | None:
        if len(self._buffer) < 8:
            return None
        size = int.from_bytes(self._buffer[:8], "little")
        if len(self._buffer) < 8 + size:
            return None
        payload = bytes(self._buffer[8 : 8 + size])
        del self._buffer[: 8 + size]
        return (pickle.loads(payload),)


def _with_length(report: object) -> bytes:
    payload = pickle.dumps(report)
    return len(payload).to_bytes(8, "little") + payload
