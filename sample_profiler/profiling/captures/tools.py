"""Other profilers, started and stopped in a process that runs: what they saw becomes a part of one merged document.

Each tool writes what its own format is: cProfile and yappi what `pstats` loads, pyinstrument and memray a speedscope
document, `torch.profiler` a Chrome trace.

Environments may profile themselves. Whatever they use, however long, ours does not fail them and leaves what theirs
collects as it is: it works without the place that theirs needs, or is refused before it begins, or gives way and is
refused at its end. So a part that is written is whole.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from sample_profiler.errors import CaptureError
from sample_profiler.files import written_whole
from sample_profiler.profiling.captures.allocations import Memray
from sample_profiler.profiling.captures.functions import CProfile
from sample_profiler.profiling.captures.operators import Torch
from sample_profiler.profiling.captures.stacks import Pyinstrument
from sample_profiler.profiling.captures.threads import AllThreads, Yappi

__all__ = ["SUFFIXES", "TOOLS", "Capture", "begin_capture"]

SUFFIXES = {
    "torch": ".json",
    "cprofile": ".pstats",
    "yappi": ".pstats",
    "pyinstrument": ".speedscope.json",
    "memray": ".speedscope.json",
}
"""What the names of part files end in, by tool."""

TOOLS = tuple(SUFFIXES)


class _Tool(Protocol):
    """A profiler."""

    def start(self) -> None:
        """Begin; raise a RuntimeError or a ValueError if it cannot, and change nothing then."""

    def stop(self) -> None:
        """End; raise a CaptureError if it has had to give way to somebody else's meanwhile."""

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
            CaptureError: another profiler of this process was in its way: there is no file, since it were not whole.
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
        tool: one of `TOOLS`. yappi, torch and memray see all threads.
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


_MAKERS: dict[str, type[_Tool]] = {
    "torch": Torch,
    "cprofile": CProfile,
    "yappi": AllThreads if hasattr(sys, "monitoring") else Yappi,
    "pyinstrument": Pyinstrument,
    "memray": Memray,
}
