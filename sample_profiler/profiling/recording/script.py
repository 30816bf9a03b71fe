"""Records a script of anybody's: one record file for its process, kept up to date by a thread that mostly sleeps."""

from __future__ import annotations

import contextlib
import logging
import os
import threading

from sample_profiler.errors import RecordError
from sample_profiler.profiling.device_clock import clock as device_clock
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.profiling.recorder.choice import TWIN
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.recording.process import ProcessRecording
from sample_profiler.profiling.timers.earlier import describe_earlier_timers
from sample_profiler.profiling.timing import Timing, set_timing
from sample_profiler.run_folder import LiveFolder

__all__ = ["ScriptRecording"]

logger = logging.getLogger(__name__)

_INTERVAL_S = 2.0


class ScriptRecording:
    """A Timing that is the current one of the process, and its record file.

    Args:
        folder: for the file; made if missing.
        name: of the process and of its tree.

    Attributes:
        timing: what the script records with.

    Raises:
        OSError: the file cannot be made.
        ValueError: the name cannot be that of a file.
    """

    def __init__(self, folder: LiveFolder, name: str) -> None:
        if not name or "/" in name or not name.isprintable():
            raise ValueError(f"the name {name!r} cannot be that of a file: give one without slashes")
        folder.path.mkdir(parents=True, exist_ok=True)
        _remove_earlier(folder, name)
        self.timing = Timing(name)
        self._pid = os.getpid()
        path = folder.record(name, self._pid)
        self._file = RecordFile(path, process_name=name, metadata=describe_earlier_timers())
        self._recording = ProcessRecording(self._file)
        self._file.attach(self.timing, name)
        self._update()
        self._previous = set_timing(self.timing, process_wide=True)
        logger.info("Recording %s, recorder: %s: %s", name, TWIN, path)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep_up_to_date, name="sample_profiler recording", daemon=True)
        self._thread.start()

    def close(self) -> bool:
        """Write everything for the last time; return whether there was anything to do: not so in a forked child."""
        if os.getpid() != self._pid:
            return False
        self._is_over.set()
        self._thread.join()
        set_timing(self._previous, process_wide=True)
        device_clock.settle(self.timing)
        self._update()
        self._file.close()
        return True

    def _keep_up_to_date(self) -> None:
        while not self._is_over.wait(_INTERVAL_S):
            self._update()

    def _update(self) -> None:
        device_clock.poll()
        self._recording.update({})


def _remove_earlier(folder: LiveFolder, name: str) -> None:
    """Remove what earlier runs of the same script left behind; not what a process that goes on is writing."""
    for path in folder.records(name):
        try:
            is_alive = read_record_file(path, with_histograms=False).is_alive
        except RecordError:
            is_alive = None
        if is_alive is False:
            with contextlib.suppress(OSError):
                path.unlink()
