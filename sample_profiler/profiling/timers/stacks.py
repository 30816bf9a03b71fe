"""`TimerStack`: a tree of timers with its gauges and metadata; and the stacks that every thread has by default."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from sample_profiler.errors import TimingError
from sample_profiler.profiling.recorder.pure import ClockNs
from sample_profiler.profiling.timers.metadata import describe_process
from sample_profiler.profiling.timers.nodes import Recording, TimerNode
from sample_profiler.profiling.tree.gauges import GaugeNode, gauge_number


class StackWatcher(Protocol):
    """Whoever wants to know of the stacks of threads."""

    def add_stack(self, stack: TimerStack) -> None:
        """Take note of the stack of a thread; called in that thread, before its first timer."""
        ...

    def set_gauge(self, name: str, number: float, set_ns: int) -> None:
        """Take what some thread has set a gauge to, and when on the wall clock; at each time, so it has to be quick."""
        ...

    def merge_gauge(self, name: str, gauge: GaugeNode) -> None:
        """Take a gauge that was merged into that of some thread."""
        ...

    def forget_gauges(self, names: Iterable[str]) -> None:
        """Take note that a thread has reset its timers, and had these gauges."""
        ...


class Watchers:
    """Who watches and is still there.

    Attributes:
        refs: to them; replaced as a whole, so that nobody who looks needs a lock.
    """

    __slots__ = ("refs",)

    def __init__(self) -> None:
        self.refs: tuple[weakref.ref[StackWatcher], ...] = ()

    def add(self, watcher: StackWatcher) -> None:
        """Let one more watch."""
        self.refs = (*(ref for ref in self.refs if ref() is not None), weakref.ref(watcher))

    def clear(self) -> None:
        """Let nobody watch any more."""
        self.refs = ()

    def __iter__(self) -> Iterator[StackWatcher]:
        """Yield them."""
        return iter([watcher for ref in self.refs if (watcher := ref()) is not None])


class TimerStack:
    """The timers, gauges and metadata of one thread, or of whoever passes this object along.

    Args:
        clock_ns: Returns integer nanoseconds that never go back; for tests.
        watchers: Who is told of gauges; None: nobody.
    """

    def __init__(self, *, clock_ns: ClockNs = time.perf_counter_ns, watchers: Watchers | None = None) -> None:
        self._watchers = watchers or Watchers()
        self._lock = threading.RLock()
        self.recording = Recording(clock_ns=clock_ns)
        self._forget()

    def _forget(self) -> None:
        self._gauges: dict[str, GaugeNode] = {}
        self._metadata: dict[str, str] = {}
        self._start_time_s = time.time()

    def reset(self) -> None:
        """Start again with nothing. Blocks that are open end with what was; those entered from now on are new."""
        with self._lock:
            names = list(self._gauges)
            self.recording = self.recording.renew()
            self._forget()
        for watcher in self._watchers:
            watcher.forget_gauges(names)

    @property
    def root(self) -> TimerNode:
        """The root: its count is 1 and its total the time since this object was made or reset."""
        return TimerNode(self.recording)

    @property
    def gauges(self) -> dict[str, GaugeNode]:
        """Copies of the gauges by name."""
        with self._lock:
            return copy_gauges(self._gauges)

    @property
    def metadata(self) -> dict[str, str]:
        """A copy of the metadata, ending now."""
        with self._lock:
            return {**describe_process(self._start_time_s), **self._metadata}

    def set_gauge(self, name: str, value: float) -> None:
        """Set a gauge; NaN is ignored.

        Raises:
            TimingError: `name` is no string, or `value` is no number, or none that a float can hold.
        """
        _check_name("name of a gauge", name)
        number = gauge_number(value)
        if number != number:
            return
        set_ns = time.time_ns()
        with self._lock:
            gauge = self._gauges.get(name)
            if gauge is None:
                gauge = self._gauges[name] = GaugeNode()
            gauge.add(number, set_ns)
        # Not under the lock: whoever writes it into a file has one of its own.
        for ref in self._watchers.refs:  # without a call for the loop: gauges are set in every step
            watcher = ref()
            if watcher is not None:
                watcher.set_gauge(name, number, set_ns)

    def merge_gauges(self, gauges: Mapping[str, GaugeNode]) -> None:
        """Add gauges of another thread or process.

        Raises:
            TimingError: a name is no string; then none is added.
        """
        for name in gauges:
            _check_name("name of a gauge", name)
        with self._lock:
            merge_gauges_into(self._gauges, gauges)
        for watcher in self._watchers:
            for name, gauge in gauges.items():
                watcher.merge_gauge(name, gauge)

    def add_metadata(self, key: str, value: str) -> None:
        """Note something about this recording; other values than strings become strings.

        Raises:
            TimingError: `key` is no string.
        """
        _check_name("key of a note", key)
        with self._lock:
            self._metadata[key] = str(value)


def _check_name(what: str, name: object) -> None:
    # When it is given: record files and JSON have strings alone, and would fail later, in code that is not its giver's.
    if not isinstance(name, str):
        raise TimingError(f"the {what} is {name!r}; allowed are strings: convert it with str() first")


def copy_gauges(gauges: Mapping[str, GaugeNode]) -> dict[str, GaugeNode]:
    """Return independent copies."""
    return {name: gauge.copy() for name, gauge in gauges.items()}


def merge_gauges_into(target: dict[str, GaugeNode], gauges: Mapping[str, GaugeNode]) -> None:
    """Add `gauges` to those of `target` by name; `gauges` stay as they are."""
    for name, gauge in gauges.items():
        if name in target:
            target[name].merge(gauge)
        elif gauge.count:
            target[name] = gauge.copy()


class _ThreadEnd:
    """Lives in a thread's local storage, which Python clears when the thread ends."""

    def __init__(self, stack: TimerStack) -> None:
        self._stack = stack

    def __del__(self) -> None:
        self._stack.recording.end()


class ThreadStacks:
    """The default stacks of this process: one for each thread, that of the main thread from the beginning."""

    def __init__(self) -> None:
        self._watchers = Watchers()
        self.main = TimerStack(watchers=self._watchers)
        self._local = threading.local()
        self._lock = threading.RLock()
        self._others: list[tuple[weakref.ref[threading.Thread], TimerStack]] = []
        self._forget()

    def watch(self, watcher: StackWatcher) -> None:
        """Tell of the stacks of threads other than the main one, of living and of new ones; and of gauges."""
        with self._lock:
            self._watchers.add(watcher)
        for stack in self.living():
            if stack is not self.main:
                watcher.add_stack(stack)

    def living(self) -> list[TimerStack]:
        """Return the stacks of the main thread and of all that are not over."""
        with self._lock:
            return [self.main, *(stack for _, stack in self._others if stack.recording.ended_ns is None)]

    def leave(self) -> None:
        """Tell nobody any more: in a forked child, whose watchers are those of its parent."""
        self._watchers.clear()

    def _forget(self) -> None:
        self._settled = TimerNode()
        self._settled_gauges: dict[str, GaugeNode] = {}

    def current(self) -> TimerStack:
        """Return the stack of the current thread, new at its first use."""
        try:
            stack: TimerStack = self._local.stack
        except AttributeError:
            stack = self._local.stack = self._make_stack()
        return stack

    def of_thread(self, thread: threading.Thread) -> TimerStack | None:
        """Return the stack of a thread, also after its end; None if it has used no timer."""
        if thread is threading.main_thread():
            return self.main
        with self._lock:
            return next((stack for other, stack in reversed(self._others) if other() is thread), None)

    def merged_threads(self) -> TimerNode | None:
        """Return what all threads but the main one have recorded, merged; None if that is nothing.

        Its count is the number of these threads and its total the sum of their times, each from the thread's first
        timer to its end.
        """
        with self._lock:
            self._settle_forgotten()
            merged = self._settled.copy()
            for _, stack in self._others:
                _merge_used(merged, stack)
        return merged if merged.count else None

    def thread_gauges(self) -> dict[str, GaugeNode]:
        """Return the gauges of all threads but the main one, merged."""
        with self._lock:
            self._settle_forgotten()
            gauges = copy_gauges(self._settled_gauges)
            for _, stack in self._others:
                merge_gauges_into(gauges, stack.gauges)
        return gauges

    def reset_all(self) -> None:
        """Reset the stacks of all threads, and drop those of threads that have ended."""
        with self._lock:
            names = list(self.thread_gauges())
            self._others = [(thread, stack) for thread, stack in self._others if _is_alive(thread())]
            self._forget()
            for _, stack in self._others:
                stack.reset()
        for watcher in self._watchers:
            watcher.forget_gauges(names)
        self.main.reset()

    def _make_stack(self) -> TimerStack:
        thread = threading.current_thread()
        if thread is threading.main_thread():
            return self.main
        stack = TimerStack(watchers=self._watchers)
        self._local.end = _ThreadEnd(stack)
        with self._lock:
            self._settle_forgotten()
            self._others.append((weakref.ref(thread), stack))
            watchers = list(self._watchers)
        for watcher in watchers:
            watcher.add_stack(stack)
        return stack

    def _settle_forgotten(self) -> None:
        # Nobody can ask for these again: their thread is gone, or another one took over its `Thread`, as happens to
        # threads that Python did not start.
        kept: list[tuple[weakref.ref[threading.Thread], TimerStack]] = []
        seen: set[threading.Thread] = set()
        for thread_ref, stack in reversed(self._others):
            thread = thread_ref()
            if thread is not None and thread not in seen:
                seen.add(thread)
                kept.append((thread_ref, stack))
            else:
                _merge_used(self._settled, stack)
                merge_gauges_into(self._settled_gauges, stack.gauges)
        self._others = kept[::-1]


def _is_alive(thread: threading.Thread | None) -> bool:
    return thread is not None and thread.is_alive()


def _merge_used(target: TimerNode, stack: TimerStack) -> None:
    if stack.root.children:
        target.merge(stack.root)


_thread_stacks = ThreadStacks()


def get_thread_stacks() -> ThreadStacks:
    """Return the default stacks of this process."""
    return _thread_stacks


def _start_in_forked_child() -> None:
    # What the parent has recorded is the parent's: merged later it would count twice.
    global _thread_stacks
    _thread_stacks.leave()
    _thread_stacks = ThreadStacks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_in_forked_child)
