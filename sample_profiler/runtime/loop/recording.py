"""Owns what a process shows of itself while it runs: one record file for the components in it, with their gauges."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from sample_profiler.profiling.device_clock import clock as device_clock
from sample_profiler.profiling.recording.file import DEFAULT_RING_BYTES, RecordFile
from sample_profiler.profiling.recording.process import ProcessRecording
from sample_profiler.profiling.timers.earlier import describe_earlier_timers
from sample_profiler.run_folder import LiveFolder
from sample_profiler.runtime.loop.event_loop import Component
from sample_profiler.runtime.loop.event_loop import Timer as LoopTimer

__all__ = ["Recording", "RecordingOptions"]

logger = logging.getLogger(__name__)

_INTERVAL_S = 1.0


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
        self._recording: ProcessRecording | None = None
        self._file: RecordFile | None = None
        folder = options.folder
        if folder is None:
            return
        self._path = path = LiveFolder(folder).record(process_name, os.getpid())
        try:
            folder.mkdir(parents=True, exist_ok=True)
            earlier = describe_earlier_timers()
            self._file = RecordFile(path, process_name=process_name, metadata=earlier, ring_bytes=options.ring_bytes)
            self._recording = ProcessRecording(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink()
            cure = "free space there, or " if error.errno == errno.ENOSPC else ""
            logger.warning(
                "There is no record file of %s, so nobody can look into it: %s: %s: %sgive another folder with "
                "--profile_dir",
                process_name,
                folder,
                error.strerror or error,
                cure,
            )

    @property
    def path(self) -> Path | None:
        """Where the file is; None: there is none."""
        return None if self._file is None else self._path

    def attach(self, component: Component) -> None:
        """Show the component's tree and gauges from now on."""
        self._components.append(component)
        if self._file is not None:
            self._file.attach(component.timing, component.name)
            self.update()  # what counts up is known from the begin on, so a window that begins soon has it, too

    def timer(self) -> LoopTimer:
        """Return the timer of a loop that keeps the file up to date."""
        return LoopTimer(_INTERVAL_S, self.update)

    def update(self) -> None:
        """Write what does not write itself: gauges, and whatever the pure-Python recorder holds back."""
        device_clock.poll()
        if self._recording is not None:
            gauges = {f"{c.name}/{name}": value for c in self._components for name, value in c.gauges().items()}
            self._recording.update(gauges)

    def close(self) -> None:
        """Write everything for the last time and mark the file as whole."""
        if self._file is None:
            return
        try:
            self.update()
        except Exception as error:  # components are over: their gauges may not be there any more
            logger.warning("The last gauges are not recorded: %s", error)
        self._file.close()
        self._file = self._recording = None
