"""A Timing with the recorder in pure Python, whichever of the two this process uses."""

from __future__ import annotations

from sample_profiler.profiling import Timing
from sample_profiler.profiling.recorder.pure import Recorder


class PureTiming(Timing):
    """Records in pure Python."""

    _recorder_class = Recorder
