"""Other profilers, started and stopped in a process that runs: what they saw becomes a part of one merged document.

Each tool writes what its own format is: cProfile and yappi what `pstats` loads, pyinstrument a speedscope document,
`torch.profiler` a Chrome trace.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Protocol

from sample_profiler.errors import CaptureError
from sample_profiler.files import written_whole
from sample_profiler.profiling.torch_state import activities_in_use, is_torch_capturing

__all__ = ["SUFFIXES", "TOOLS", "Capture", "begin_capture"]

SUFFIXES = {"torch": ".json", "cprofile": ".pstats", "yappi": ".pstats", "pyinstrument": ".speedscope.json"}
"""What the names of part files end in, by tool."""

TOOLS = tuple(SUFFIXES)


class _Tool(Protocol):
    """A profiler."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""

    def write(self, path: Path) -> bool:
        """Write what was seen; return whether there is anything."""


class Capture:
    """A capture that is going on in this process. Begin it with `begin_capture`.

    Args:
        tool: its name.
        profiler: that has been started.
        path: of the file to write.
    """

    def __init__(self, tool: str, profiler: _Tool, path: Path) -> None:
        self.tool = tool
        self._profiler = profiler
        self._path = path
        self._start_ns = time.perf_counter_ns()

    def end(self) -> dict[str, Any]:
        """Stop and write the file.

        Returns:
            ``path``; ``start_ns`` and ``end_ns`` on the clock of blocks; ``is_empty``.

        Raises:
            OSError: the file cannot be written.
        """
        end_ns = time.perf_counter_ns()
        self._profiler.stop()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(self._path) as partial:
            has_content = self._profiler.write(partial)
        return {"path": str(self._path), "start_ns": self._start_ns, "end_ns": end_ns, "is_empty": not has_content}


def begin_capture(tool: str, path: str | os.PathLike[str]) -> Capture:
    """Start a profiler in this process; what runs in its current thread from now on is captured.

    Args:
        tool: one of `TOOLS`. yappi and torch see all threads.
        path: of the file that it will write.

    Raises:
        CaptureError: there is no such tool, it is not installed, or another profiler is in its way.
    """
    if tool not in _MAKERS:
        raise CaptureError(f"unknown tool {tool!r}; allowed are {', '.join(TOOLS)}")
    profiler = _MAKERS[tool]()
    try:
        profiler.start()
    except (RuntimeError, ValueError) as error:
        raise CaptureError(f"{tool} cannot start: {error}: end the other profiler of this process first") from error
    return Capture(tool, profiler, Path(path))


class _CProfile:
    """The profiler of the standard library: every call of the current thread."""

    def __init__(self) -> None:
        import cProfile

        self._profile = cProfile.Profile()

    def start(self) -> None:
        self._profile.enable()

    def stop(self) -> None:
        self._profile.disable()

    def write(self, path: Path) -> bool:
        self._profile.dump_stats(path)
        return bool(self._profile.getstats())


class _Yappi:
    """Every call of every thread, by the wall's clock."""

    def __init__(self) -> None:
        try:
            import yappi
        except ImportError as error:
            raise _missing("yappi") from error
        self._yappi: Any = yappi

    def start(self) -> None:
        if self._yappi.is_running():
            raise ValueError("yappi is running already")
        self._yappi.clear_stats()
        self._yappi.set_clock_type("wall")
        self._yappi.start(builtins=True)

    def stop(self) -> None:
        self._yappi.stop()

    def write(self, path: Path) -> bool:
        statistics = self._yappi.get_func_stats()
        is_empty = statistics.empty()
        if is_empty:
            import cProfile

            cProfile.Profile().dump_stats(path)
        else:
            statistics.save(str(path), type="pstat")
        self._yappi.clear_stats()
        return not is_empty


class _Pyinstrument:
    """A thousand looks a second at the stack of the current thread."""

    def __init__(self) -> None:
        try:
            from pyinstrument import Profiler
        except ImportError as error:
            raise _missing("pyinstrument") from error
        self._profiler = Profiler(interval=0.001, async_mode="disabled")

    def start(self) -> None:
        self._profiler.start()

    def stop(self) -> None:
        self._profiler.stop()

    def write(self, path: Path) -> bool:
        from pyinstrument.renderers import SpeedscopeRenderer

        session = self._profiler.last_session
        if session is None or not session.frame_records:
            path.write_text(json.dumps({"shared": {"frames": []}, "profiles": []}))
            return False
        path.write_text(SpeedscopeRenderer().render(session))
        return True


class _Torch:
    """PyTorch's operators, and its ranges, of all threads; where the process uses a GPU its kernels, too."""

    def __init__(self) -> None:
        try:
            from torch.profiler import ProfilerActivity, profile

            names = activities_in_use()
        except ImportError as error:
            raise CaptureError(f"torch cannot be imported: {error}: install torch") from error
        self._profile = profile(activities=[getattr(ProfilerActivity, name.upper()) for name in names])

    def start(self) -> None:
        if is_torch_capturing():  # its profiler would end that one, and lose what it has
            raise ValueError("torch.profiler captures in this process already, as after enable_profile")
        self._profile.start()

    def stop(self) -> None:
        self._profile.stop()

    def write(self, path: Path) -> bool:
        self._profile.export_chrome_trace(str(path))
        # Not profile.events(): for a million events that takes a minute, in which the component stands still. Traces of
        # nothing have one category alone.
        with path.open("rb") as trace:
            return any(b'"cat": "' in line and b'"cat": "Trace"' not in line for line in trace)


_MAKERS: dict[str, type[_Tool]] = {
    "torch": _Torch,
    "cprofile": _CProfile,
    "yappi": _Yappi,
    "pyinstrument": _Pyinstrument,
}


def _missing(tool: str) -> CaptureError:
    return CaptureError(f"{tool} is not installed: pip install 'sample_profiler[profilers]'")
