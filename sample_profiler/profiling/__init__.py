"""Measure where time goes: Timing trees. Standard library only, usable alone in any program."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sample_profiler.errors import TimingError as TimingError
    from sample_profiler.profiling.timing import Timing as Timing
    from sample_profiler.profiling.timing import get_timing as get_timing
    from sample_profiler.profiling.timing import set_timing as set_timing

_HOMES = {
    "Timing": "sample_profiler.profiling.timing",
    "TimingError": "sample_profiler.errors",
    "get_timing": "sample_profiler.profiling.timing",
    "set_timing": "sample_profiler.profiling.timing",
}

__all__ = ["Timing", "TimingError", "get_timing", "set_timing"]


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
