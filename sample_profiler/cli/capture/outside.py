"""Owns captures from outside: py-spy reads the memory of the processes, whatever they do, and also if they hang."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sample_profiler.cli.capture.live import CaptureOutcome, CaptureRequest, Interruption, describe_obstacle
from sample_profiler.component_id import RUNNER
from sample_profiler.errors import CaptureError, SessionError
from sample_profiler.files import read_small_text
from sample_profiler.profiling.session.session import Session, read_session
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.run.commands.selection import choose_components
from sample_profiler.run_folder import RunFolder

__all__ = ["PY_SPY", "capture_outside"]

PY_SPY = "py-spy"

_RATE_PER_S = 100
_POLL_S = 0.1
_WRITING_S = 60.0
_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


def capture_outside(
    run_dir: Path, request: CaptureRequest, interrupted: Interruption, on_progress: Callable[[str], None]
) -> CaptureOutcome:
    """Look at the stacks of processes of a run from outside, and wait until that is over.

    Python processes that they have started, such as games, are looked at, too.

    Args:
        run_dir: the run's folder.
        request: whom to look at, for what, and for how long.
        interrupted: ends the capture early once it is wanted.
        on_progress: is told the step that the capture is in, again and again.

    Raises:
        CaptureError: py-spy is not installed, the run is not there or has ended, or the request makes no sense.
    """
    program = _find_program()
    processes = _find_processes(run_dir, request)
    name = f"py_spy_{time.strftime('%Y%m%d_%H%M%S')}_0"
    folder = RunFolder(run_dir).captures / name
    folder.mkdir(parents=True, exist_ok=True)
    outcome = CaptureOutcome(name)
    start_ns = time.perf_counter_ns()
    with contextlib.ExitStack() as stack:
        looks = {
            component: _Look([program, *_arguments(component, pid, folder / f"{component}.json", request)])
            for component, pid in processes.items()
        }
        for look in looks.values():
            stack.callback(look.close)
        _wait(looks, request.seconds, interrupted, on_progress)
    for component, look in looks.items():
        part = folder / f"{component}.json"
        if look.process.returncode == 0 and part.is_file():
            outcome.parts[component] = part
            outcome.facts[component] = {
                "start_ns": start_ns,
                "end_ns": start_ns + round(look.seconds * NS_PER_S),
                "is_empty": False,
            }
        else:
            outcome.errors[component] = _explain(look.said)
    return outcome


def _find_program() -> str:
    beside = Path(sys.executable).with_name(PY_SPY)
    found = str(beside) if beside.is_file() else shutil.which(PY_SPY)
    if found is None:
        raise CaptureError("py-spy is not installed: pip install 'sample_profiler[py-spy]'")
    return found


def _find_processes(run_dir: Path, request: CaptureRequest) -> dict[str, int]:
    """Return the processes of the chosen components by their names, each once."""
    try:
        session: Session = read_session(run_dir, with_events=False, with_histograms=False)
    except SessionError as error:
        raise CaptureError(str(error)) from error
    if obstacle := describe_obstacle(run_dir, session):
        raise CaptureError(obstacle)
    processes = {
        component: (record.name, record.pid)
        for record in session.processes
        if record.state in ("alive", "stopped")
        for component in record.components
    }
    return dict(processes[name] for name in choose_components(processes, request.components, request.workers))


def _arguments(component: str, pid: int, part: Path, request: CaptureRequest) -> list[str]:
    arguments = ["record", "--pid", str(pid), "--output", str(part), "--format", "speedscope"]
    arguments += ["--rate", str(_RATE_PER_S), "--duration", str(max(1, round(request.seconds)))]
    # The Runner's children are the other components.
    arguments += ["--subprocesses"] if component != RUNNER else []
    # Also threads that wait: what hangs does nothing else.
    arguments += ["--gil" if request.is_of_gil else "--idle"]
    return [*arguments, *(["--native"] if request.has_native_frames else [])]


class _Look:
    """A py-spy that looks at one process, and what it says.

    Args:
        command: that runs it.

    Attributes:
        process: of it.
        seconds: for how long it has looked.
        said: what it has printed; empty before its end.
    """

    def __init__(self, command: list[str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (as long as this is there)
        self._begin_s = time.monotonic()
        self.seconds = 0.0
        self.said = ""
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output, start_new_session=True
        )

    def has_ended(self) -> bool:
        """Tell whether it has written what it saw, or given up."""
        if self.process.poll() is None:
            self.seconds = time.monotonic() - self._begin_s
            return False
        return True

    def close(self) -> None:
        """End it, if it has not ended, and read what it has printed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        with self._output:
            self._output.seek(0)
            self.said = self._output.read().decode(errors="replace").strip()


def _wait(
    looks: dict[str, _Look], seconds: float, interrupted: Interruption, on_progress: Callable[[str], None]
) -> None:
    deadline_s = time.monotonic() + seconds + _WRITING_S
    is_ending = False
    while not all([look.has_ended() for look in looks.values()]) and time.monotonic() < deadline_s:
        if interrupted.is_wanted and not is_ending:
            is_ending = True
            for look in looks.values():
                with contextlib.suppress(ProcessLookupError):
                    look.process.send_signal(signal.SIGINT)  # it writes what it has seen by then
        on_progress("stop" if is_ending else "run")
        time.sleep(_POLL_S)


def _explain(said: str) -> str:
    """Say why py-spy has seen nothing."""
    words = said.lower()
    if "permission denied" in words or "operation not permitted" in words or "eperm" in words:
        scope = ""
        with contextlib.suppress(OSError):
            scope = f" (kernel.yama.ptrace_scope is {read_small_text(_PTRACE_SCOPE).strip()})"
        return (
            f"the kernel does not let this user look into other processes{scope}: run the command as root, in a "
            "container that has the capability SYS_PTRACE (docker run --cap-add SYS_PTRACE), or after sysctl -w "
            "kernel.yama.ptrace_scope=0"
        )
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"py-spy: {'; '.join(lines[-3:])}" if lines else "py-spy saw nothing, and says nothing: it was ended"
