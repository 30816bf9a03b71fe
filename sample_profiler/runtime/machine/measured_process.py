"""Owns a process of which it is known, when it has ended, how much memory it had at most, and how much processor time.

The kernel tells that once, to whoever takes notice of the end; afterwards nobody can ask for it.
"""

from __future__ import annotations

import contextlib
import os
from multiprocessing.context import SpawnProcess
from multiprocessing.popen_spawn_posix import Popen
from multiprocessing.process import BaseProcess

import psutil

from sample_profiler.runtime.machine.memory_limits import read_process_memory

__all__ = ["UNKNOWN_STATUS", "MeasuredProcess"]

UNKNOWN_STATUS = 256  # none that a process can end with
"""Of a process whose end somebody else has taken notice of, so that nobody can tell how it was."""

_BYTES_PER_KIB = 1024


class _MeasuredPopen(Popen):
    """Starts the process, and takes notice of its end."""

    def __init__(self, process: BaseProcess) -> None:
        self.most_bytes = 0
        self.cpu_s = 0.0
        own = read_process_memory(os.getpid())
        # A process begins as a copy of the one that starts it, whose memory counts for the most that it ever had.
        self._inherited_bytes = own.resident if own else 0
        super().__init__(process)

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        """Return the exit status, negative for a signal, or UNKNOWN_STATUS; None: it runs."""
        if self.returncode is None:
            try:
                self._note_cpu_time(flag)
                pid, status, usage = os.wait4(self.pid, flag)
            except ChildProcessError:  # somebody in this process waits for whichever child ends, or ignores SIGCHLD
                self.returncode = UNKNOWN_STATUS
                return self.returncode
            if pid == self.pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                most_bytes = usage.ru_maxrss * _BYTES_PER_KIB
                self.most_bytes = most_bytes if most_bytes > self._inherited_bytes else 0
        return self.returncode

    def _note_cpu_time(self, flag: int) -> None:
        """Read what it has used if it has ended; `wait4` counts those in, too, that it has waited for itself.

        Raises:
            ChildProcessError: somebody else has taken notice of its end.
        """
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | flag) is None:
            return
        with contextlib.suppress(psutil.Error):  # the system does not show it
            used = psutil.Process(self.pid).cpu_times()
            self.cpu_s = used.user + used.system


class MeasuredProcess(SpawnProcess):
    """A spawned process."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Popen:  # noqa: N802 (multiprocessing's own name for how a process starts)
        return _MeasuredPopen(process_obj)

    @property
    def most_bytes(self) -> int:
        """What was resident at most, of the process or one that it has waited for; 0: it runs, or that is not known."""
        return getattr(self._popen, "most_bytes", 0)  # type: ignore[attr-defined]

    @property
    def cpu_s(self) -> float:
        """Seconds of processor time that it has had by itself; 0: it runs, or that is not known."""
        return getattr(self._popen, "cpu_s", 0.0)  # type: ignore[attr-defined]
