"""Owns the processes beside a run that tell trackers of it: whatever becomes of them, the run goes on.

A process each: a library that hangs, or takes all of its process along, is one tracker's matter.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from sample_profiler.reports.sections.tables import format_duration
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.records.statistics import RunStatus
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.machine.children_time import leave_out, take_in

__all__ = ["TrackerProcesses"]

logger = logging.getLogger(__name__)

_LOOK_INTERVAL_S = 0.05
_MOST_BYTES = 1 << 16  # of what is told, at once
_PATIENCE_S = 1.0  # before somebody is told that something is waited for


class _TrackerProcess:
    """The process that tells a tracker of a run.

    Args:
        name: of the tracker.
        folder: of the run.

    Attributes:
        name: of the tracker.
        is_done: whether the tracker knows all of the run.
        has_ended: whether the process is over.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, name: str, folder: RunFolder) -> None:
        self.name = name
        self.is_done = False
        self.has_ended = False
        self._told = b""
        folder.tracking(name).mkdir(parents=True, exist_ok=True)
        with folder.tracking_log(name).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sample_profiler.trackers", name, os.fspath(folder.path)],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.fspath, sys.path))},
                start_new_session=True,  # Ctrl+C is for the run
            )
        assert self._process.stdout is not None
        self._answers = self._process.stdout
        os.set_blocking(self._answers.fileno(), False)
        leave_out(self._process.pid)

    def look(self) -> None:
        """Log what the process has told, and notice its end."""
        try:
            data = b"" if self.has_ended else os.read(self._answers.fileno(), _MOST_BYTES)
        except BlockingIOError:  # it has told nothing
            return
        *lines, self._told = (self._told[-_MOST_BYTES:] + data).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace"))
        self.has_ended = not data

    def tell_end(self) -> None:
        """Let the process know that the run is over."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        """End the process, if it has not ended; again, do nothing."""
        if self._process.returncode is not None:
            return
        self.tell_end()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._answers.close()
        take_in(self._process.pid)

    def _take(self, line: str) -> None:
        kind, text = line[:1], line[1:]
        if kind == "D":
            self.is_done = True
        elif kind == "W":
            logger.warning("Tracker %s: %s", self.name, text)
        else:
            logger.info("Tracker %s: %s", self.name, text)


class TrackerProcesses(RunObserver):
    """Has trackers told of a run, and tells the log when one of them is lost.

    Args:
        names: of the trackers.
        folder: of the run.
    """

    def __init__(self, names: Sequence[str], folder: RunFolder) -> None:
        self._folder = folder
        self._processes: list[_TrackerProcess] = []
        for name in names:
            self._start(name)
        self._watched = list(self._processes)

    def on_status(self, status: RunStatus) -> None:  # noqa: ARG002
        """Look after the processes."""
        self.look()

    def look(self) -> bool:
        """Log what processes have told, and tell whether there are any left."""
        for process in list(self._watched):
            process.look()
            if process.has_ended:
                self._watched.remove(process)
                self._warn(process, "its process has ended; the run goes on without it")
        return bool(self._watched)

    def finish(self, timeout_s: float) -> bool:
        """Let trackers take what is left for so long, and tell whether all of them know all of the run."""
        begin_s = time.monotonic()
        for process in self._watched:
            process.tell_end()
        has_told = False
        while waited := [process for process in self._watched if not process.has_ended]:
            passed_s = time.monotonic() - begin_s
            if passed_s >= timeout_s:
                break
            if passed_s >= _PATIENCE_S and not has_told:
                has_told = True
                names = " and ".join(process.name for process in waited)
                limit = f", for {format_duration(timeout_s)} at most" if math.isfinite(timeout_s) else ""
                logger.info("Sending what is left to %s%s", names, limit)
            time.sleep(_LOOK_INTERVAL_S)
            for process in waited:
                process.look()
        for process in self._watched:
            if not process.is_done:
                late = (
                    ""
                    if process.has_ended
                    else f" within {format_duration(timeout_s)}, and is not waited for any longer"
                )
                self._warn(process, f"it has not taken all{late}")
        self.close()
        return all(process.is_done for process in self._processes)

    def close(self) -> None:
        """End the processes that are left; again, do nothing."""
        self._watched = []
        for process in self._processes:
            process.close()

    def _start(self, name: str) -> None:
        try:
            self._processes.append(_TrackerProcess(name, self._folder))
        except OSError as error:
            logger.warning("Tracker %s: it cannot be told of the run: %s", name, error)

    def _warn(self, process: _TrackerProcess, text: str) -> None:
        logger.warning(
            "Tracker %s: %s: sample-profiler track %s %s sends it the rest, %s has what it printed",
            *(process.name, text, self._folder.path, process.name, self._folder.tracking_log(process.name)),
        )
