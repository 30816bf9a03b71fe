"""What a record file shows of its process beside trees: gauges, and the timers of code that has no Timing at hand."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping

from sample_profiler.profiling.process.gauges import process_gauges
from sample_profiler.profiling.record.process_record import THREAD_TIMERS, TIMERS, describe_dropped_nodes
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.recording.further_threads import FurtherThreads
from sample_profiler.profiling.timers.stacks import TimerStack, get_thread_stacks
from sample_profiler.profiling.timing import Timing
from sample_profiler.profiling.tree.gauges import GaugeNode

__all__ = ["ProcessRecording"]

logger = logging.getLogger(__name__)

_MOST_THREADS = 32
"""Slots are never given back: threads that come and go must not take those of threads that come later and stay."""


class ProcessRecording:
    """Keeps a record file up to date.

    The timers of threads are in it as far as they fit into the first half of its slots: those of each of the first 32
    threads as they record, those of further ones as they were at the latest update, added up in one tree. Blocks beyond
    that are recorded and not shown, and counted as such. The other half of the slots is for the components and the main
    thread, whatever threads do. Timers that are reset keep their slots.

    Gauges are those that are set while this is there, over all threads; one begins anew when a thread that has set it
    resets its timers.

    Args:
        file: of this process.
    """

    def __init__(self, file: RecordFile) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._shown: dict[str, Timing] = {}
        self._threads: dict[str, TimerStack] = {}
        self._num_threads = 0
        self._further = FurtherThreads(file, f"{THREAD_TIMERS}others")
        self._has_told_of_dropped = False
        self._show(TIMERS, get_thread_stacks().main)
        get_thread_stacks().watch(self)

    def add_stack(self, stack: TimerStack) -> None:
        """Show the timers of a thread from its first one on: it may be over, or killed, before the next update."""
        with self._lock:
            if stack in self._threads.values() or stack in self._further:
                return
            self._num_threads += 1
            number = self._num_threads  # of this thread: another one may come as soon as the lock is free
            name = f"{THREAD_TIMERS}{number}"
            if number <= _MOST_THREADS:
                self._threads[name] = stack
            else:
                self._further.add(stack)
        if number <= _MOST_THREADS:
            self._show(name, stack)

    def set_gauge(self, name: str, number: float, set_ns: int) -> None:
        """Write what some thread has set a gauge to, at once: the process may be killed."""
        self._file.add_to_gauge(name, number, set_ns)

    def merge_gauge(self, name: str, gauge: GaugeNode) -> None:
        """Write a gauge that was merged into that of some thread."""
        self._file.merge_gauge(name, gauge)

    def forget_gauges(self, names: Iterable[str]) -> None:
        """Begin anew with gauges of a thread that has reset its timers."""
        self._file.forget_gauges(names)

    def update(self, gauges: Mapping[str, float]) -> None:
        """Write what does not write itself, and whatever the pure-Python recorder holds back.

        Args:
            gauges: further ones than the process's own and those of the timers.
        """
        for name, value in (process_gauges() | dict(gauges)).items():
            self._file.set_gauge(name, value)
        stacks = get_thread_stacks()
        self._show(TIMERS, stacks.main)
        self._further.update()
        with self._lock:
            threads = dict(self._threads)
        for name, stack in threads.items():
            ended_ns = stack.recording.ended_ns
            # A thread that is over may have gone on after a reset; if another file had it, it stays there.
            if ended_ns is None or name in self._shown:
                self._show(name, stack)
            if ended_ns is not None:
                self._let_go(name, ended_ns)
        self._file.flush()
        self._tell_of_dropped_nodes()

    def _tell_of_dropped_nodes(self) -> None:
        num_dropped = self._file.num_nodes_dropped
        if num_dropped and not self._has_told_of_dropped:
            self._has_told_of_dropped = True
            logger.warning("%s", describe_dropped_nodes(self._file.process_name, num_dropped))

    def _show(self, name: str, stack: TimerStack) -> None:
        # Again after a reset while no file had them, which begins anew with another Timing. Where a process has two
        # record files, as a run inside of a recorded script, the first one to attach has them.
        timers = stack.recording.timing
        if timers is None or timers is self._shown.get(name) or timers.is_shown:
            return
        self._shown[name] = timers
        self._file.attach(timers, name, leaves_room=name != TIMERS)

    def _let_go(self, name: str, ended_ns: int) -> None:
        with self._lock:
            self._threads.pop(name, None)
            is_shown = self._shown.pop(name, None) is not None
        if is_shown:
            self._file.end_tree(name, ended_ns)
