"""Owns what every component tells of itself while it runs: its timers and gauges, delivered to the Runner at intervals.

A delivery holds everything since the component's start, so one that is lost costs nothing once the next is there.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Sequence
from pathlib import Path

from sample_profiler.profiling.timer_documents import WorkerTimers
from sample_profiler.profiling.timer_nodes import GaugeNode, TimerNode
from sample_profiler.profiling.timers import get_timer_root
from sample_profiler.runtime.channels import Reports
from sample_profiler.runtime.event_loop import Component, Input, Timer

__all__ = ["DeliveringComponent", "process_gauges"]

_INTERVAL_S = 10.0
_KIB_PER_MIB = 1024


class DeliveringComponent:
    """A component that also delivers its timers and gauges.

    Args:
        component: the component proper.
        reports: to the Runner.
        is_alone: it has a process of its own: what else is recorded there (`timers` in environments) is part of it, and
            so are the process's memory and time.
    """

    def __init__(self, component: Component, reports: Reports, is_alone: bool) -> None:
        self.name = component.name
        self.timing = component.timing
        self.inputs: Callable[[], Sequence[Input]] = component.inputs
        self.start = component.start
        self.wait_block = component.wait_block
        self._component = component
        self._reports = reports
        self._is_alone = is_alone
        self._gauges: dict[str, GaugeNode] = {}

    def timers(self) -> Sequence[Timer]:
        """Return the component's timers and the one that delivers."""
        return [*self._component.timers(), Timer(_INTERVAL_S, self.deliver)]

    def gauges(self) -> dict[str, float]:
        """Return what the component and its process measure right now."""
        return self._component.gauges() | (process_gauges() if self._is_alone else {})

    def finish(self) -> None:
        """Deliver for the last time, and let the component finish."""
        try:
            self._component.finish()
        finally:
            self.deliver()

    def deliver(self) -> None:
        """Send timers and gauges as they are now."""
        for name, value in self.gauges().items():
            self._gauges.setdefault(name, GaugeNode()).update(value)
        root = TimerNode.from_tree(self.timing.snapshot())
        if self._is_alone:
            for name, child in get_timer_root().children.items():
                root.merge(child, root_name=name, is_parallel=False)
        group = self.name.partition("_")[0]
        gauges = {name: gauge.copy() for name, gauge in self._gauges.items()}
        self._reports.send(WorkerTimers(worker=self.name, group=group, process=os.getpid(), root=root, gauges=gauges))


def process_gauges() -> dict[str, float]:
    """Return this process's memory, the processor time that it has had, and the time that it has waited for one."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    gauges = {"memory_mib": usage.ru_maxrss / _KIB_PER_MIB, "cpu_s": usage.ru_utime + usage.ru_stime}
    try:
        gauges["run_delay_s"] = int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return gauges  # the kernel does not tell
    return gauges
