"""Owns what a process shows of itself while it runs: one record file for the components in it, with their gauges."""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from sample_profiler.profiling import device_clock
from sample_profiler.profiling.process_gauges import process_gauges
from sample_profiler.profiling.process_record import TIMERS
from sample_profiler.profiling.record_file import DEFAULT_RING_BYTES, RecordFile
from sample_profiler.profiling.timer_stacks import get_thread_stacks
from sample_profiler.profiling.timing import Timing
from sample_profiler.runtime.event_loop import Component
from sample_profiler.runtime.event_loop import Timer as LoopTimer

__all__ = ["Recording", "RecordingOptions"]

logger = logging.getLogger(__name__)

_INTERVAL_S = 2.0


@dataclass(frozen=True)
class RecordingOptions:
    """How a process shows what it does.

    Attributes:
        folder: where record files lie; is made; None: no files, nobody can look inside.
        ring_bytes: room for the latest blocks of a process; 0 keeps none.
    """

    folder: Path | None = None
    ring_bytes: int = DEFAULT_RING_BYTES


class Recording:
    """The record file of this process.

    A file that cannot be made is a warning: training goes on, and nobody can look inside this process.

    Args:
        options: where the file is, and how large.
        process_name: the name of the file, beside the process's number.
    """

    def __init__(self, options: RecordingOptions, process_name: str) -> None:
        self._components: list[Component] = []
        self._timers: Timing | None = None
        self._file: RecordFile | None = None
        folder = options.folder
        if folder is None:
            return
        path = folder / f"{process_name}.{os.getpid()}.rec"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = RecordFile(path, process_name=process_name, ring_bytes=options.ring_bytes)
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink()
            logger.warning(
                "There is no record file of %s, so nobody can look into it: %s: free space in %s, or give another "
                "folder with --profile_dir",
                process_name,
                error.strerror or error,
                folder,
            )

    def attach(self, component: Component) -> None:
        """Show the component's tree and gauges from now on."""
        self._components.append(component)
        if self._file is not None:
            self._file.attach(component.timing, component.name)

    def timer(self) -> LoopTimer:
        """Return the timer of a loop that keeps the file up to date."""
        return LoopTimer(_INTERVAL_S, self.update)

    def update(self) -> None:
        """Write what does not write itself: gauges, and whatever the pure-Python recorder holds back."""
        device_clock.poll()
        if self._file is None:
            return
        for name, value in process_gauges().items():
            self._file.set_gauge(name, value)
        for component in self._components:
            for name, value in component.gauges().items():
                self._file.set_gauge(f"{component.name}/{name}", value)
        self._attach_timers()
        self._file.flush()

    def close(self) -> None:
        """Write everything for the last time and mark the file as whole."""
        if self._file is not None:
            self.update()
            self._file.close()
            self._file = None

    def _attach_timers(self) -> None:
        # Only once there is something, and again after a reset, which begins anew with another Timing.
        stack = get_thread_stacks().main
        timers = stack.recording.timing
        if self._file is not None and timers is not None and timers is not self._timers and stack.root.children:
            self._timers = timers
            self._file.attach(timers, TIMERS)
