"""Turns recording off and on for a whole process, to measure what it costs."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from sample_profiler.profiling.recorder.choice import TWIN
from sample_profiler.profiling.timing import Timing

__all__ = ["set_recording_enabled"]


class _NoBlock:
    """What every block is while recording is off, for the recorder in pure Python."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def path(self) -> tuple[str, ...]:
        return ()


_NO_BLOCK = _NoBlock()


def _make_no_block(*_: Any, **__: Any) -> _NoBlock:
    return _NO_BLOCK


def _record_nothing(*_: Any) -> None:
    pass


_MAKING_BLOCKS = {name: vars(Timing)[name] for name in ("add_time", "timeit", "time_avg")}
_RECORDING = {name: vars(Timing)[name] for name in ("record", "mark_flow")}


def set_recording_enabled(is_enabled: bool) -> None:
    """Let all Timings of this process record, or not.

    While they do not, a block does nothing; those that are open when this is called end as they began.

    Args:
        is_enabled: Whether blocks entered from now on are recorded.
    """
    if TWIN == "compiled":
        from sample_profiler.profiling.recorder import _core

        _core.set_enabled(is_enabled)
        return
    # The hot path asks nothing: its methods are exchanged.
    for name, method in _MAKING_BLOCKS.items():
        setattr(Timing, name, method if is_enabled else _make_no_block)
    for name, method in _RECORDING.items():
        setattr(Timing, name, method if is_enabled else _record_nothing)
