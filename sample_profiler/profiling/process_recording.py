"""What a record file shows of its process beside trees: gauges, and the timers of code that has no Timing at hand."""

from __future__ import annotations

from collections.abc import Mapping

from sample_profiler.profiling.process_gauges import process_gauges
from sample_profiler.profiling.process_record import TIMERS
from sample_profiler.profiling.record_file import RecordFile
from sample_profiler.profiling.timer_stacks import get_thread_stacks
from sample_profiler.profiling.timing import Timing

__all__ = ["ProcessRecording"]


class ProcessRecording:
    """Keeps a record file up to date.

    Args:
        file: of this process.
    """

    def __init__(self, file: RecordFile) -> None:
        self._file = file
        self._timers: Timing | None = None
        self._attach_timers()

    def update(self, gauges: Mapping[str, float]) -> None:
        """Write what does not write itself, and whatever the pure-Python recorder holds back.

        Args:
            gauges: further ones than the process's own and those of the timers.
        """
        for name, value in (process_gauges() | dict(gauges)).items():
            self._file.set_gauge(name, value)
        for name, gauge in get_thread_stacks().main.gauges.items():
            self._file.write_gauge(name, gauge)
        self._attach_timers()
        self._file.flush()

    def _attach_timers(self) -> None:
        # Again after a reset, which begins anew with another Timing. Where a process has two record files, as a run
        # inside of a recorded script, the first one to attach has them.
        timers = get_thread_stacks().main.recording.timing
        if timers is None or timers is self._timers or timers.is_shown:
            return
        self._timers = timers
        self._file.attach(timers, TIMERS)
