"""Queues of faster-fifo: room is counted, and nobody waits for a mutex whose holder is gone.

A thread that ends stands for a process that is killed: both leave the mutex as it is.
"""

from __future__ import annotations

import ctypes
import errno
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sample_profiler.errors import ConfigError, MessageError
from sample_profiler.runtime.messages import fifo_queue
from sample_profiler.runtime.messages.fifo_queue import FifoQueue

PATIENCE_S = 20.0


@pytest.fixture
def queue() -> FifoQueue:
    return FifoQueue("Reader", 200)


def hold_and_end(queue: FifoQueue, meanwhile: Callable[[Any], None] = lambda head: None) -> int:
    """Have a thread take the mutex to its grave; return its number."""

    def hold() -> None:
        queue._lock()
        meanwhile(queue._head())

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    assert thread.native_id is not None
    while Path(f"/proc/{thread.native_id}").exists():  # Python is done with it a moment before the system is
        pass
    return thread.native_id


@pytest.fixture
def putting(queue) -> Iterator[threading.Thread]:
    """A thread that is about to put something; ends with the test."""
    thread = threading.Thread(target=queue.put_many, args=(["last"],))
    yield thread
    if thread.is_alive():
        queue._head().holder = 0
        queue._head().is_locked = 0
        queue.release()
        thread.join()


def test_who_waits_for_a_lost_holder_goes_on_after_a_release(queue, putting):
    queue.put_many(["first"])
    holder = hold_and_end(queue)
    assert queue.holder == holder
    putting.start()
    assert queue.release()
    putting.join(PATIENCE_S)
    assert not putting.is_alive()
    assert queue.holder == 0
    assert queue.get_many(timeout=0) == ["first", "last"]
    assert not queue.release(), "nobody holds it"


def test_a_mutex_that_somebody_holds_who_lives_is_left_alone(queue):
    queue._lock()
    assert queue.holder == threading.get_native_id()
    assert not queue.release()
    assert queue.holder == threading.get_native_id()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(TimeoutError, match="the queue of Reader is held by"):
        patch.setattr(fifo_queue, "_LOCK_S", 0.0)
        queue.renew()
    queue._unlock()


def test_who_has_the_mutex_without_having_said_who_it_is_cannot_be_told_from_the_living(queue):
    hold_and_end(queue, lambda head: setattr(head, "holder", 0))
    assert queue.holder == -1
    assert not queue.release()
    queue._unlock()


def test_who_waits_is_woken_although_the_one_that_was_to_wake_it_is_gone(queue, putting):
    """The mutex is open, and the system has woken one that was killed before it could take it and wake the next."""
    queue._lock()
    putting.start()
    head = queue._head()
    while head.is_locked != 2:  # with somebody who waits
        pass
    head.holder = 0
    head.is_locked = 0
    while putting.is_alive():  # it may not have begun to wait when it was woken
        queue.release()
        putting.join(0.1)
    assert queue.get_many(timeout=0) == ["last"]


def half_put(head: Any) -> None:
    """As a sender that has written how long its message is, and half of it."""
    head.end = (head.end + 8 + 2) % head.max_size_bytes
    head.num_bytes += 8 + 2


def half_taken(head: Any) -> None:
    """As a reader that has taken a message and not counted it yet."""
    size = 8 + len(pickle.dumps("one"))
    head.first = (head.first + size) % head.max_size_bytes
    head.num_bytes -= size


@pytest.mark.parametrize("num_before", range(12))
def test_what_was_put_as_a_whole_stays_and_the_rest_is_dropped(num_before, queue):
    for _ in range(num_before):  # so that it is at another place of the ring
        queue.put_many(["x"])
        queue.get_many(timeout=0)
    queue.put_many(["one", "two"])
    hold_and_end(queue, half_put)
    assert queue.release()
    assert queue.qsize() == 2
    queue.put_many(["three"])
    assert queue.get_many(timeout=0) == ["one", "two", "three"]
    assert queue.data_size() == queue.qsize() == 0


@pytest.mark.parametrize("num_before", range(12))
def test_what_its_reader_was_about_to_take_is_no_message_any_more(num_before, queue):
    for _ in range(num_before):
        queue.put_many(["x"])
        queue.get_many(timeout=0)
    queue.put_many(["one", "two", "333"])
    hold_and_end(queue, half_taken)
    assert queue.release()
    assert queue.get_many(timeout=0) == ["two", "333"]
    assert queue.data_size() == queue.qsize() == 0


def test_a_queue_that_is_renewed_is_as_it_was_at_first(queue):
    as_new = bytes(queue.queue_obj_buffer)
    queue.put_many([1, 2, 3])
    queue.get_many(timeout=0, max_messages_to_get=1)
    waiters = ctypes.c_int.from_buffer(queue.queue_obj_buffer, len(as_new) - 2 * 48 - 12)
    waiters.value = 1  # the reader was killed while it waited
    queue.renew()
    assert bytes(queue.queue_obj_buffer) == as_new
    queue.put_many(["again"])
    assert queue.get_many(timeout=0) == ["again"]


def test_a_reader_that_can_never_be_woken_again_is_an_error(queue, monkeypatch):
    released = threading.Event()

    class StuckLibrary:
        """The C library, in which a lock is left that nobody can open."""

        pthread_mutex_unlock = fifo_queue._c.pthread_mutex_unlock
        pthread_mutex_trylock = fifo_queue._c.pthread_mutex_trylock
        syscall = fifo_queue._c.syscall

        @staticmethod
        def pthread_cond_signal(_: object) -> None:
            released.wait()

    hold_and_end(queue)
    monkeypatch.setattr(fifo_queue, "_c", StuckLibrary)
    monkeypatch.setattr(fifo_queue, "_LOCK_S", 0.01)
    with pytest.raises(MessageError, match=r"in which it woke Reader.*--transport=pipe"):
        queue.release()
    assert queue.holder == 0, "others can put, and end"
    released.set()


def test_where_no_thread_can_begin_that_would_wake_the_reader_it_is_told(queue, monkeypatch):
    def fail(_):
        raise RuntimeError("can't start new thread")

    hold_and_end(queue)
    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(MessageError, match="Reader cannot be woken for its messages: RuntimeError: can't start new"):
        queue.release()
    assert queue.holder == 0, "others can put, and end"


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), PermissionError()])
def test_a_lock_whose_holder_cannot_be_looked_at_is_left_alone(queue, monkeypatch, error):
    hold_and_end(queue)
    with monkeypatch.context() as blind:

        def fail(*_, **__):
            raise error

        blind.setattr(Path, "read_text", fail)
        assert not queue.release()
    assert queue.holder
    assert queue.release()


def test_a_message_without_room_is_an_error_and_not_dropped(queue):
    queue.put_many(["x" * 150])
    with pytest.raises(MessageError, match=r"the queue of Reader has no room .* 1 are there, in \d+ of 200 bytes"):
        queue.put_many(["x" * 150], block=False)
    assert queue.qsize() == 1


def test_queues_of_an_unknown_layout_are_refused(monkeypatch):
    monkeypatch.setattr(fifo_queue, "_MUTEX_BYTES", {1: 40})
    with pytest.raises(ConfigError, match=r"--transport=fifo: .* use --transport=pipe"):
        FifoQueue("Reader", 200)
