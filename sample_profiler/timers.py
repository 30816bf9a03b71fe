"""Timers for code that has no `Timing` at hand: ``@timed``, ``with hierarchical_timer("name"):``, gauges, one JSON."""

from __future__ import annotations

from sample_profiler.profiling.timers.nodes import TimerNode
from sample_profiler.profiling.timers.stacks import TimerStack
from sample_profiler.profiling.timers.timers import (
    add_metadata,
    get_timer_root,
    get_timer_stack_for_thread,
    get_timer_tree,
    hierarchical_timer,
    merge_gauges,
    reset_timers,
    set_gauge,
    timed,
    write_timing_tree,
)
from sample_profiler.profiling.tree.gauges import GaugeNode

__all__ = [
    "GaugeNode",
    "TimerNode",
    "TimerStack",
    "add_metadata",
    "get_timer_root",
    "get_timer_stack_for_thread",
    "get_timer_tree",
    "hierarchical_timer",
    "merge_gauges",
    "reset_timers",
    "set_gauge",
    "timed",
    "write_timing_tree",
]
