"""Asynchronous reinforcement learning (PPO) whose every second of training time is accounted for.

The names below load when they are first used: importing the package imports neither PyTorch nor any environment, so
processes that only step environments stay small.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sample_profiler.switches import ARE_RANGES_ARMED as ARE_RANGES_ARMED  # read now, see there
from sample_profiler.switches import RANGES_VARIABLE as RANGES_VARIABLE
from sample_profiler.version import __version__

if TYPE_CHECKING:
    from sample_profiler.cli.enjoy import enjoy
    from sample_profiler.cli.playing.evaluate import evaluate
    from sample_profiler.cli.train import train
    from sample_profiler.collector.collector import Collector
    from sample_profiler.envs import register_env
    from sample_profiler.model.policy import Policy, PolicyEvaluation
    from sample_profiler.model.registry import (
        register_actor_critic,
        register_core,
        register_decoder,
        register_encoder,
    )
    from sample_profiler.policies import load_policy
    from sample_profiler.profiling import Timing, get_timing, profile_session, read_session
    from sample_profiler.profiling.ranges import profile_range, set_profiling_enabled
    from sample_profiler.recorded_run import Run
    from sample_profiler.run.extensions.component import RunComponent
    from sample_profiler.run.observers import RunObserver
    from sample_profiler.runtime.machine.ray_cluster import as_remote
    from sample_profiler.storage.sampling_plan import register_policy_mapping
    from sample_profiler.timers import (
        GaugeNode,
        TimerNode,
        TimerStack,
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

__all__ = [
    "Collector",
    "GaugeNode",
    "Policy",
    "PolicyEvaluation",
    "Run",
    "RunComponent",
    "RunObserver",
    "TimerNode",
    "TimerStack",
    "Timing",
    "__version__",
    "add_metadata",
    "as_remote",
    "enjoy",
    "evaluate",
    "get_timer_root",
    "get_timer_stack_for_thread",
    "get_timer_tree",
    "get_timing",
    "hierarchical_timer",
    "load_policy",
    "merge_gauges",
    "profile_range",
    "profile_session",
    "read_session",
    "register_actor_critic",
    "register_core",
    "register_decoder",
    "register_encoder",
    "register_env",
    "register_policy_mapping",
    "reset_timers",
    "set_gauge",
    "set_profiling_enabled",
    "timed",
    "train",
    "write_timing_tree",
]

_MODULE_OF_NAME = {
    "Collector": "sample_profiler.collector.collector",
    "GaugeNode": "sample_profiler.timers",
    "Policy": "sample_profiler.model.policy",
    "PolicyEvaluation": "sample_profiler.model.policy",
    "Run": "sample_profiler.recorded_run",
    "RunComponent": "sample_profiler.run.extensions.component",
    "RunObserver": "sample_profiler.run.observers",
    "TimerNode": "sample_profiler.timers",
    "TimerStack": "sample_profiler.timers",
    "Timing": "sample_profiler.profiling",
    "add_metadata": "sample_profiler.timers",
    "as_remote": "sample_profiler.runtime.machine.ray_cluster",
    "enjoy": "sample_profiler.cli.enjoy",
    "evaluate": "sample_profiler.cli.playing.evaluate",
    "get_timer_root": "sample_profiler.timers",
    "get_timer_stack_for_thread": "sample_profiler.timers",
    "get_timer_tree": "sample_profiler.timers",
    "get_timing": "sample_profiler.profiling",
    "hierarchical_timer": "sample_profiler.timers",
    "load_policy": "sample_profiler.policies",
    "merge_gauges": "sample_profiler.timers",
    "profile_range": "sample_profiler.profiling.ranges",
    "profile_session": "sample_profiler.profiling",
    "read_session": "sample_profiler.profiling",
    "register_actor_critic": "sample_profiler.model.registry",
    "register_core": "sample_profiler.model.registry",
    "register_decoder": "sample_profiler.model.registry",
    "register_encoder": "sample_profiler.model.registry",
    "register_env": "sample_profiler.envs",
    "register_policy_mapping": "sample_profiler.storage.sampling_plan",
    "reset_timers": "sample_profiler.timers",
    "set_gauge": "sample_profiler.timers",
    "set_profiling_enabled": "sample_profiler.profiling.ranges",
    "timed": "sample_profiler.timers",
    "train": "sample_profiler.cli.train",
    "write_timing_tree": "sample_profiler.timers",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use (PEP 562)."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; public names: {', '.join(__all__)}")
    value = getattr(import_module(_MODULE_OF_NAME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the names that are not loaded yet as well."""
    return sorted({*globals(), *__all__})
