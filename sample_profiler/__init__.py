"""Asynchronous reinforcement learning (PPO) whose every second of training time is accounted for.

The names below load when they are first used: importing the package imports neither PyTorch nor any environment, so
processes that only step environments stay small.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sample_profiler.cli.train import train
    from sample_profiler.envs import register_env
    from sample_profiler.profiling import Timing, get_timing

__version__ = "0.1.0"

__all__ = ["Timing", "__version__", "get_timing", "register_env", "train"]

_MODULE_OF_NAME = {
    "Timing": "sample_profiler.profiling",
    "get_timing": "sample_profiler.profiling",
    "register_env": "sample_profiler.envs",
    "train": "sample_profiler.cli.train",
}


def __getattr__(name: str) -> Any:
    """Loads a public name from its module on first use (PEP 562)."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; public names: {', '.join(__all__)}")
    value = getattr(import_module(_MODULE_OF_NAME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Lists the names that are not loaded yet as well."""
    return sorted({*globals(), *__all__})
