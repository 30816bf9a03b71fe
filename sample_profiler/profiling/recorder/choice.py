"""Which of the two recorders this process uses: the compiled one where it was built, else the one in pure Python."""

from __future__ import annotations

import os
from typing import Any, cast

from sample_profiler.profiling.recorder import block
from sample_profiler.profiling.recorder.pure import Recorder

__all__ = ["ENVIRONMENT_VARIABLE", "RECORDER_CLASS", "TWIN", "get_open_blocks"]

ENVIRONMENT_VARIABLE = "SAMPLE_PROFILER_PURE_PYTHON"
"""Set to 1, it chooses the recorder in pure Python."""


def _choose() -> tuple[str, type[Recorder]]:
    if os.environ.get(ENVIRONMENT_VARIABLE) != "1":
        try:
            from sample_profiler.profiling.recorder.compiled import CompiledRecorder
        except ImportError:  # no compiler was there when the package was installed
            return "pure Python", Recorder
        # Not a subclass, and of the same interface: the core's methods would be hidden by those of the other one.
        return "compiled", cast("type[Recorder]", CompiledRecorder)
    return "pure Python", Recorder


TWIN, RECORDER_CLASS = _choose()
"""The name of the twin, "compiled" or "pure Python", and its class."""


def get_open_blocks() -> list[Any]:
    """Return the blocks that are open in the current context, the innermost first."""
    blocks: list[Any] = list(block.get_open_blocks())
    if TWIN == "compiled":
        from sample_profiler.profiling.recorder import _core

        blocks += _core.get_open_blocks()
    return blocks
