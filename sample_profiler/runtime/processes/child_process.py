"""Owns one child process as its parent sees it: what it is asked, whether it lives, where it is, and how it ended."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import time
import weakref
from multiprocessing import process as processes
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil

from sample_profiler.runtime.commands.commands import Command, Patience, portable
from sample_profiler.runtime.machine.measured_process import UNKNOWN_STATUS, MeasuredProcess
from sample_profiler.runtime.processes.child import STACKS_SIGNAL, STOP, ChildLinks, ChildSettings
from sample_profiler.runtime.processes.main_module import IMPORTED_UNGUARDED, NO_GUARD
from sample_profiler.runtime.surroundings.own_pipes import FILES_CLOSED

__all__ = ["Child"]

logger = logging.getLogger(__name__)

_POLL_S = 0.01
_STACKS_S = 1.0
_END_S = 3.0
_MEANINGS = {
    IMPORTED_UNGUARDED: NO_GUARD,
    FILES_CLOSED: "its files were closed: an environment, or what it uses, closes some that are not its own",
}
"""Of exit statuses of a child."""
_MOST_STACKS_BYTES = 1 << 18
_CRASHES = frozenset(
    -number for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
)
_ENDS_OF_CPU_TIME = (signal.SIGXCPU, signal.SIGKILL)
"""What comes when a process has had its processor time: of the soft limit, and of the hard one."""
_CPU_LIMIT_SLACK_S = 1.0  # the kernel counts whole seconds
_CRASH_BEGINS, _CRASH_ENDS = "Fatal Python error: ", "\n\nExtension modules:"  # as `faulthandler` writes


class _ExitWatch:
    """Becomes readable when a process ends.

    Not the process's own sentinel: that is a pipe whose write end the games of a worker inherit, so that it stays open
    after the worker has been killed.
    """

    def __init__(self, child: Child, descriptor: int) -> None:
        # A cycle would keep a lost child's descriptors open until Python happens to collect its garbage.
        self._child = weakref.ref(child)
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def receive(self) -> list[Child]:
        child = self._child()
        return [] if child is None else [child]

    def __del__(self) -> None:
        with contextlib.suppress(OSError):  # an environment may have closed all files of the process
            os.close(self._descriptor)


class Child:
    """One component in a process of its own, as its parent sees it."""

    def __init__(self, settings: ChildSettings, process: BaseProcess, links: ChildLinks) -> None:
        self.name = settings.name
        self._patience = Patience(settings.patience_s)
        self.reports = links.reports
        self._process = process
        self._control = links.control
        self._stacks = links.stacks
        self._was_killed_by_parent = False
        try:
            process.start()
            assert process.pid is not None
            self.pid: int = process.pid
            self.exit = _ExitWatch(self, os.pidfd_open(self.pid))
        except BaseException:  # a second Ctrl+C, too: nobody else knows of the process yet
            _end_unknown(process)
            raise

    def stop(self) -> None:
        """Ask the component to finish."""
        self._control.post(STOP)

    def send_command(self, command: Command) -> None:
        """Ask the component for something; the answer is one of its reports.

        Waits for nobody: a component that hangs, or is gone, would keep this process from noticing. See `flush`.

        Raises:
            ValueError: the arguments cannot be sent.
        """
        self._control.post(portable(command))
        self._patience.note(command)

    def flush(self) -> bool:
        """Send on what the component was asked and there was no room for; tell whether nobody has to wait for that.

        What a process has not read before its end goes with it.
        """
        return self._control.flush() or not self.is_alive()

    @property
    def patience_s(self) -> float:
        """What it is given to finish."""
        return self._patience.seconds

    def kill(self) -> None:
        """End the process now, also when it is stopped or hangs."""
        self._was_killed_by_parent |= self.is_alive()
        self._process.kill()

    def suspend(self) -> None:
        """Have the process stand still, if it is alive, until it is killed."""
        if self.is_alive():  # else another one may have its number
            os.kill(self.pid, signal.SIGSTOP)

    def let_go_if_alive(self) -> None:
        """Have Python's exit not wait for a process that was killed and does not end."""
        if self.is_alive():
            logger.warning(
                "%s (process %d) cannot be killed%s: left behind", self.name, self.pid, self.describe_obstacle()
            )
            processes._children.discard(self._process)  # type: ignore[attr-defined]

    def is_alive(self) -> bool:
        """Tell whether the process runs."""
        return self._process.is_alive()

    def describe_obstacle(self) -> str:
        """Say it in parentheses if the kernel keeps the process from running; else nothing."""
        states = {psutil.STATUS_STOPPED: "stopped by a signal", psutil.STATUS_DISK_SLEEP: "waiting for a device"}
        try:
            state = states.get(psutil.Process(self.pid).status())
        except psutil.Error:
            return ""
        return f" (its process was {state})" if state else ""

    def dump_stacks(self) -> str:
        """Return where all threads of the process are, as Python sees it; empty if it cannot say, as when stopped."""
        try:
            if not _catches(self.pid, STACKS_SIGNAL):
                return ""  # it would die of it
            os.kill(self.pid, STACKS_SIGNAL)
        except OSError:  # it is gone
            return ""
        text = ""
        deadline_s = time.monotonic() + _STACKS_S
        while time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
            previous, text = text, self._read_stacks()
            if text and text == previous:
                break
        return text

    def describe_crash(self) -> str:
        """Return where its threads were when native code crashed; empty: it has ended otherwise, or could not say."""
        if self.exit_code not in _CRASHES:
            return ""
        _, _, text = self._read_stacks().rpartition(_CRASH_BEGINS)
        _, _, stacks = text.partition("\n")
        return f"its threads were here:\n{stacks.partition(_CRASH_ENDS)[0].strip()}" if stacks.strip() else ""

    def _read_stacks(self) -> str:
        return os.pread(self._stacks.fileno(), _MOST_STACKS_BYTES, 0).decode(errors="replace")

    @property
    def exit_code(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._process.exitcode

    @property
    def was_asked_to_end(self) -> bool:
        """Whether it has died of a signal that usually goes to all processes of a job."""
        return self.exit_code in (-signal.SIGTERM, -signal.SIGHUP)

    @property
    def was_killed_by_others(self) -> bool:
        """Whether it has died of SIGKILL, and not that of its parent."""
        return self.exit_code == -signal.SIGKILL and not self._was_killed_by_parent

    @property
    def has_broken_off(self) -> bool:
        """Whether it has ended in another way than in order, or by a signal that ends processes in order."""
        return bool(self.exit_code) and not self.was_asked_to_end and self.exit_code != -signal.SIGKILL

    @property
    def most_memory_bytes(self) -> int:
        """What was resident at most; 0: it runs, or that is not known."""
        return self._process.most_bytes if isinstance(self._process, MeasuredProcess) else 0

    def describe_exit(self) -> str:
        """Say in words how the process ended."""
        code = self.exit_code
        if code is None:
            return "is still running"
        if code == UNKNOWN_STATUS:
            return "has ended, how is not known: something in the main process waits for whichever child ends"
        if code < 0:
            told = f"was killed by signal {-code} ({_name_of(-code)})"
            return told + self._describe_used_up(-code)
        told = f"exited with status {code}"
        return f"{told} ({_MEANINGS[code]})" if code in _MEANINGS else told

    def _describe_used_up(self, number: int) -> str:
        """Say whether a signal came because the process had had all of the processor time that it was to have."""
        if number not in _ENDS_OF_CPU_TIME or self._was_killed_by_parent:
            return ""
        if not isinstance(self._process, MeasuredProcess):
            return ""
        limit_s = resource.getrlimit(resource.RLIMIT_CPU)[_ENDS_OF_CPU_TIME.index(number)]
        if limit_s == resource.RLIM_INFINITY or self._process.cpu_s < limit_s - _CPU_LIMIT_SLACK_S:
            return ""
        return f", as it had had the {limit_s} s of processor time that a process may have here (ulimit -t)"


def _catches(pid: int, number: int) -> bool:
    """Tell whether a process has a handler for a signal.

    Raises:
        OSError: there is no such process.
    """
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return bool(caught >> (number - 1) & 1)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # of the real-time signals Python knows the first and the last
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def _end_unknown(process: BaseProcess) -> None:
    """End a process that has no Child, if it has begun at all."""
    if process.pid is not None:
        process.kill()
        process.join(_END_S)
