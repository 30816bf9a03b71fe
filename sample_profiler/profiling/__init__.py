"""Measure where time goes, in any program: blocks, trees and sessions. Nothing beyond the standard library."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sample_profiler.errors import TimingError as TimingError
    from sample_profiler.profiling.recorder.choice import TWIN as TWIN
    from sample_profiler.profiling.recording.switch import set_recording_enabled as set_recording_enabled
    from sample_profiler.profiling.session.session import Session as Session
    from sample_profiler.profiling.session.session import profile_session as profile_session
    from sample_profiler.profiling.session.session import read_session as read_session
    from sample_profiler.profiling.timing import Timing as Timing
    from sample_profiler.profiling.timing import get_timing as get_timing
    from sample_profiler.profiling.timing import set_timing as set_timing

_HOMES = {
    "Session": "sample_profiler.profiling.session.session",
    "TWIN": "sample_profiler.profiling.recorder.choice",
    "Timing": "sample_profiler.profiling.timing",
    "TimingError": "sample_profiler.errors",
    "get_timing": "sample_profiler.profiling.timing",
    "profile_session": "sample_profiler.profiling.session.session",
    "read_session": "sample_profiler.profiling.session.session",
    "set_recording_enabled": "sample_profiler.profiling.recording.switch",
    "set_timing": "sample_profiler.profiling.timing",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
