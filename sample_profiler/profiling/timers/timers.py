"""Timers, the door to the recorder for code that has no `Timing` at hand: decorators and blocks that find their tree.

Every thread has a `TimerStack`; the functions here use that of the current thread, or the one they are given. The
main thread's document has those of the other threads merged under ``threads``.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar, overload

from sample_profiler.errors import TimingError
from sample_profiler.profiling.timers.documents import THREADS, make_document, write_document
from sample_profiler.profiling.timers.nodes import Recording, TimerNode
from sample_profiler.profiling.timers.stacks import TimerStack, get_thread_stacks, merge_gauges_into
from sample_profiler.profiling.tree.gauges import GaugeNode

Function = TypeVar("Function", bound=Callable[..., Any])


class _OpenTimer:
    """One pass through a timer: a block of the recorder, which also tells the path of its node."""

    __slots__ = ("_block", "_name", "_recording")

    def __init__(self, name: str, recording: Recording) -> None:
        self._name = name
        self._recording = recording
        timing = recording.timing
        assert timing is not None, "the recording of a stack has a Timing"
        self._block = timing.add_time(name)

    def __enter__(self) -> TimerNode:
        self._block.__enter__()
        path = self._block.path()
        # Without a path, recording is off: what is done to the node has to stay apart from what was recorded.
        return TimerNode(self._recording, path) if path else TimerNode(path=(self._name,))

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._block.__exit__(exc_type, exc, traceback)


def hierarchical_timer(name: str, timer_stack: TimerStack | None = None) -> AbstractContextManager[TimerNode]:
    """Time a block inside the timer that is open now, and get its node.

    Write ``with hierarchical_timer("exchange") as node:``.
    An exception that leaves the block closes and counts it, and goes on. Entering raises `TimingError` if the name is
    no string.

    Args:
        name: The name of the timer under its parent.
        timer_stack: Where it is recorded; None is the current thread's stack.
    """
    return _OpenTimer(name, (timer_stack or get_thread_stacks().current()).recording)


@overload
def timed(func: Function, timer_stack: TimerStack | None = None) -> Function: ...


@overload
def timed(func: None = None, timer_stack: TimerStack | None = None) -> Callable[[Function], Function]: ...


def timed(
    func: Function | None = None, timer_stack: TimerStack | None = None
) -> Function | Callable[[Function], Function]:
    """Time every call of a function or method under its qualified name: ``@timed``, also on ``async def``.

    A coroutine counts from its first step to its end, with what it waits for. With ``@classmethod`` or ``@property``,
    ``@timed`` stands below; with ``@staticmethod`` on either side.

    Args:
        func: The function.
        timer_stack: Where it is recorded; None is the stack of the thread that calls it.

    Raises:
        TimingError: `func` is a generator function, also an asynchronous one, whose call does nothing of its work; or
            it cannot be called, such as what ``@classmethod`` returns.
    """
    if func is None:
        return functools.partial(timed, timer_stack=timer_stack)
    if isinstance(func, staticmethod):
        # A plain function in its place would be bound: calls through an instance would give it the instance.
        return type(func)(timed(func.__func__, timer_stack))
    _check_timed(func)
    name = getattr(func, "__qualname__", type(func).__qualname__)
    wrapper: Any
    if inspect.iscoroutinefunction(func):

        @functools.wraps(func)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with hierarchical_timer(name, timer_stack):
                return await func(*args, **kwargs)
    else:

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with hierarchical_timer(name, timer_stack):
                return func(*args, **kwargs)

    return wrapper  # type: ignore[no-any-return]  # functools.wraps keeps what is known of the function


def _check_timed(func: object) -> None:
    if isinstance(func, classmethod | property | functools.cached_property):
        decorator = type(func).__name__
        raise TimingError(
            f"@timed stands above @{decorator}, whose result is no function: put @{decorator} above @timed"
        )
    if not callable(func):
        raise TimingError(
            f"@timed got {func!r}, which cannot be called; allowed are functions: write @timed without a name, or "
            "`with hierarchical_timer(name):` for a timer with another one"
        )
    if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        # Each step would have to count as a call, while `count` is that of calls.
        name = getattr(func, "__qualname__", type(func).__qualname__)
        raise TimingError(
            f"@timed cannot time the generator function {name!r}: calling it does nothing yet, its work is done in the "
            f'loop over it. Leave out @timed and put `with hierarchical_timer("{name}"):` around that loop'
        )


def set_gauge(name: str, value: float, timer_stack: TimerStack | None = None) -> None:
    """Set a gauge, a value whose latest, smallest and largest are of interest; NaN is ignored.

    Infinity is kept; in JSON, which knows none, the largest float stands for it.

    Raises:
        TimingError: `name` is no string, or `value` is no number, or none that a float can hold.
    """
    (timer_stack or get_thread_stacks().current()).set_gauge(name, value)


def merge_gauges(gauges: Mapping[str, GaugeNode], timer_stack: TimerStack | None = None) -> None:
    """Add gauges of another stack; of two values the one set later wins.

    Raises:
        TimingError: A name is no string; then none is added.
    """
    (timer_stack or get_thread_stacks().current()).merge_gauges(gauges)


def add_metadata(key: str, value: str, timer_stack: TimerStack | None = None) -> None:
    """Note something about this recording for its document; other values than strings become strings.

    Raises:
        TimingError: `key` is no string.
    """
    (timer_stack or get_thread_stacks().current()).add_metadata(key, value)


def get_timer_root(timer_stack: TimerStack | None = None) -> TimerNode:
    """Return the root of the current thread's timers, or of the given stack; what other threads did is not in it."""
    return (timer_stack or get_thread_stacks().current()).root


def get_timer_tree(timer_stack: TimerStack | None = None) -> dict[str, Any]:
    """Return the JSON-ready document of a stack; that of the main thread has the other threads under ``threads``.

    The keys are ``name``, ``gauges``, ``metadata`` and those of a node: ``total`` (seconds), ``count``,
    ``is_parallel``, ``self`` (seconds) and ``children`` by name. ``gauges``, ``is_parallel`` and ``children`` are left
    out where there is nothing to tell.
    """
    stacks = get_thread_stacks()
    stack = timer_stack or stacks.current()
    root, gauges = stack.root.copy(), stack.gauges
    if stack is stacks.main:
        threads = stacks.merged_threads()
        if threads is not None:
            root.merge(threads, root_name=THREADS)
        merge_gauges_into(gauges, stacks.thread_gauges())
    return make_document(root, gauges, stack.metadata)


def reset_timers(timer_stack: TimerStack | None = None) -> None:
    """Start again with no timers, gauges and notes, also inside of open blocks, which then end unrecorded.

    In the main thread this resets every thread's stack, since its document has them all.
    """
    stacks = get_thread_stacks()
    stack = timer_stack or stacks.current()
    if stack is stacks.main:
        stacks.reset_all()
    else:
        stack.reset()


def get_timer_stack_for_thread(thread: threading.Thread, timer_stack: TimerStack | None = None) -> TimerStack | None:
    """Return the stack of a thread, also after its end; None if it has used no timer.

    Args:
        thread: The thread.
        timer_stack: What code that records into a stack of its own passes along: it is returned, whatever the thread.
    """
    return timer_stack or get_thread_stacks().of_thread(thread)


def write_timing_tree(path: str | os.PathLike[str], timer_stack: TimerStack | None = None) -> None:
    """Write the document of `get_timer_tree` to a file, whose folder is made.

    Raises:
        OSError: The file cannot be written; one that was there is then as before.
    """
    write_document(get_timer_tree(timer_stack), path)
