"""Owns the queue through which messages come to a process by faster-fifo: it is never full, and never stays locked.

faster-fifo keeps a queue in shared memory that has no name, behind a mutex of the C library. The system does not open
such a mutex when it ends the process that holds it, as others do with locks on files: everybody else would wait for it
for ever, in C code, where no signal handler of Python runs. So whoever notices the end of a process opens what it held:

- `release`: a sender was ended. If it held the mutex, nobody else was at the queue: what it had put there as a whole
  stays, the rest is dropped, and the mutex is opened. Whoever waits for the mutex is woken in any case: the system may
  have woken the one that is gone, which would have woken the next. Only where a sender was ended in the few
  instructions in which it wakes the reader, within the C library, is there no way to go on, and that is an error. And
  one that was ended in the few between taking the mutex and writing its number there looks like one that is about to
  write it: that mutex stays closed, its holder is -1, and the run learns of it by `--hang_timeout` alone, of whoever
  waits for the mutex.
- `renew`: the reader was ended, and its successor is to begin with an empty queue. The condition variables are made
  anew, too: they still count the lost reader as one that waits, and would in the end wait for it themselves.

Both need to know where faster-fifo keeps what; a queue that is laid out otherwise is refused when it is made.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from queue import Full
from typing import Any

import faster_fifo

from sample_profiler.errors import ConfigError, MessageError, describe_error

__all__ = ["FifoQueue"]

_LOCK_S = 1.0
_POLL_S = 0.001
_MOST_MESSAGES = 2**31 - 1
_SIZE_BYTES = ctypes.sizeof(ctypes.c_size_t)
_GONE = -1

_MUTEX_BYTES = {208: 40, 216: 48}
"""Of a mutex, by the size of the whole: of 64-bit processors, x86 and Arm."""

_FUTEX = {208: 202, 216: 98}
"""Number of the system call that wakes those who wait for a word of memory, in the same way."""
_WAKE = 1
_CONDITION_BYTES = 48
"""Of a condition variable; there are two at the end, that of the reader first."""

_c = ctypes.CDLL(None)


class _Head(ctypes.Structure):
    """Where faster-fifo keeps its place in the ring of messages, and then the mutex, as the GNU C library has it."""

    _fields_ = (
        ("max_size_bytes", ctypes.c_size_t),
        ("maxsize", ctypes.c_size_t),
        ("first", ctypes.c_size_t),
        ("end", ctypes.c_size_t),
        ("num_bytes", ctypes.c_size_t),
        ("num_messages", ctypes.c_size_t),
        ("mutex_attributes", ctypes.c_size_t),
        ("is_locked", ctypes.c_int),
        ("count", ctypes.c_uint),
        ("holder", ctypes.c_int),
    )


_MUTEX = _Head.is_locked.offset


class FifoQueue(faster_fifo.Queue):
    """A queue of faster-fifo, for any number of processes that send and one that receives.

    It can only be pickled for a process that is being spawned.

    Args:
        reader: the component that receives.
        num_bytes: that it has room for: all messages that can be there at once, as they are pickled, and 8 for each.

    Raises:
        ConfigError: the installed faster-fifo, or the C library, lays queues out in another way.
    """

    HEADER_BYTES = _SIZE_BYTES
    """That each message takes beside its own."""

    def __init__(self, reader: str, num_bytes: int) -> None:
        super().__init__(max_size_bytes=num_bytes, maxsize=_MOST_MESSAGES, loads=pickle.loads, dumps=pickle.dumps)
        self.reader = reader
        self._new = bytes(self.queue_obj_buffer)
        head = self._head()
        found = head.max_size_bytes, head.maxsize, head.num_messages, head.is_locked, head.holder
        if len(self._new) not in _MUTEX_BYTES or found != (num_bytes, _MOST_MESSAGES, 0, 0, 0):
            raise ConfigError(
                [
                    "--transport=fifo: the queues of the faster-fifo that is installed are laid out in a way that is "
                    "not known here, so that a process that is killed could stop all others: use --transport=pipe"
                ]
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for shared in (self.closed, self.queue_obj_buffer, self.shared_memory):
            (arena, *_), _ = shared._wrapper._state
            # What a spawned process is handed would otherwise pass on to every game that it starts.
            os.set_inheritable(arena.fd, False)

    def put_many(self, xs: Iterable[Any], block: bool = True, timeout: float = 10.0) -> None:
        """Append messages.

        Raises:
            MessageError: there is no room for them. Whoever emits a signal would drop it, and go on.
        """
        try:
            super().put_many(xs, block, timeout)
        except Full:
            raise MessageError(
                f"the queue of {self.reader} has no room for another message: {self.qsize():,} are there, in "
                f"{self.data_size():,} of {self.max_size_bytes:,} bytes. There should never be so many; "
                "--transport=pipe does without these queues"
            ) from None

    @property
    def holder(self) -> int:
        """The thread that holds the mutex: its number; 0: nobody does; -1: it ended before it could say who it was."""
        head = self._head()
        return int(head.holder or (_GONE if head.is_locked else 0))

    def release(self) -> bool:
        """Open the mutex if a thread that has ended holds it, and tell whether one did; nobody waits in vain then.

        Raises:
            MessageError: nobody can be woken any more who waits for messages.
        """
        is_left = self._open_if_left()
        _c.syscall(_FUTEX[len(self._new)], self._at(_MUTEX), _WAKE, _MOST_MESSAGES, None, None, 0)
        if is_left:
            self._try_to_wake()
        return is_left

    def _open_if_left(self) -> bool:
        head = self._head()
        holder = head.holder
        # Looked at again, for one that ends after it has opened the mutex: nobody but it could have changed that.
        if not holder or _is_alive(holder) or head.holder != holder:
            return False
        self._drop_partial(head)
        self._unlock()
        return True

    def _try_to_wake(self) -> None:
        """Wake the reader, in a thread that will have to stay in the C library if this is not possible."""
        condition = self._at(len(self._new) - 2 * _CONDITION_BYTES)
        thread = threading.Thread(target=_c.pthread_cond_signal, args=(condition,), daemon=True, name="waking")
        try:
            thread.start()
        except RuntimeError as error:  # there may be no more threads
            raise MessageError(f"{self.reader} cannot be woken for its messages: {describe_error(error)}") from None
        thread.join(_LOCK_S)
        if thread.is_alive():
            raise MessageError(
                f"a process was killed in the very moment in which it woke {self.reader} for a message: there is no "
                "way to do so any more. --transport=pipe does without what was broken"
            )

    def renew(self) -> None:
        """Make the queue as it was at first: its reader has ended, and nobody waits for it.

        Raises:
            TimeoutError: somebody holds the mutex.
        """
        self._lock()
        try:
            head, behind = self._head(), _MUTEX + _MUTEX_BYTES[len(self._new)]
            head.first = head.end = head.num_bytes = head.num_messages = 0
            ctypes.memmove(ctypes.addressof(head) + behind, self._new[behind:], len(self._new) - behind)
        finally:
            self._unlock()

    def _head(self) -> _Head:
        return _Head.from_buffer(self.queue_obj_buffer)

    def _drop_partial(self, head: _Head) -> None:
        """Let the queue end behind its last whole message.

        A sender counts the bytes first and then the message; so does the reader, when it takes one away.
        """
        num_bytes = 0
        for number in range(head.num_messages):
            next_bytes = num_bytes + _SIZE_BYTES + self._size_at(head.first + num_bytes)
            if next_bytes > head.num_bytes:
                head.num_messages = number
                break
            num_bytes = next_bytes
        head.num_bytes = num_bytes
        head.end = (head.first + num_bytes) % head.max_size_bytes

    def _size_at(self, position: int) -> int:
        memory, end = self.shared_memory, self.max_size_bytes
        return int.from_bytes([memory[(position + number) % end] for number in range(_SIZE_BYTES)], "little")

    def _lock(self) -> None:
        deadline_s = time.monotonic() + _LOCK_S
        while _c.pthread_mutex_trylock(self._at(_MUTEX)):  # never to wait in C: this is who has to notice
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the queue of {self.reader} is held by thread {self.holder}")
            time.sleep(_POLL_S)

    def _unlock(self) -> None:
        _c.pthread_mutex_unlock(self._at(_MUTEX))

    def _at(self, offset: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(self.queue_obj_buffer) + offset)


def _is_alive(thread: int) -> bool:
    try:
        _, _, rest = Path(f"/proc/{thread}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:  # not to be known now, as where no more files can be opened: whose the lock is stays untouched
        return True
    return rest.split()[0] not in ("Z", "X")
