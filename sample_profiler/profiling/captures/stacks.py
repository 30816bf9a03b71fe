"""Owns captures of call stacks: we look at them, pyinstrument makes of it what it would of its own looks.

Its own need the one place for a profiler that each thread has; ours need none.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from sample_profiler.errors import CaptureError
from sample_profiler.profiling.captures.interpreter.interpreter import Looks, Stack, stack_of

__all__ = ["Pyinstrument"]

_INTERVAL_S = 0.001
_NS_PER_S = 1e9


class Pyinstrument:
    """A thousand looks a second at the stack of the current thread."""

    def __init__(self) -> None:
        try:
            import pyinstrument.renderers  # noqa: F401 (what is missing is told before the capture)
        except ImportError as error:
            raise CaptureError("pyinstrument is not installed: pip install 'sample_profiler[profilers]'") from error
        self._looks = Looks(_INTERVAL_S)
        self._seen: list[tuple[int, Stack]] = []
        self._start: Stack = ()
        self._began_s = 0.0
        self._started = (0.0, 0.0)
        self._ended = (0.0, 0.0)

    def start(self) -> None:
        """Begin.

        Raises:
            RuntimeError: somebody looks already.
        """
        self._start = stack_of(sys._getframe())
        self._began_s = time.time()  # its differences are none: clocks are set
        self._started = time.perf_counter(), time.process_time()
        self._looks.start()

    def stop(self) -> None:
        """End."""
        self._seen = self._looks.stop()
        self._ended = time.perf_counter(), time.process_time()

    def write(self, path: Path) -> bool:
        """Write a speedscope document; return whether there is anything in it."""
        from pyinstrument.renderers import SpeedscopeRenderer
        from pyinstrument.session import Session

        if not self._seen:
            path.write_text(json.dumps({"shared": {"frames": []}, "profiles": []}))
            return False
        path.write_text(SpeedscopeRenderer().render(Session.from_json(self._describe())))
        return True

    def _describe(self) -> dict[str, Any]:
        """Return what pyinstrument keeps of a session in its files."""
        codes = {code for stack in (self._start, *(stack for _, stack in self._seen)) for code in stack}
        names = {code: f"{code.co_name}\0{code.co_filename}\0{code.co_firstlineno}" for code in codes}
        records = [([names[code] for code in stack], ns / _NS_PER_S) for ns, stack in self._seen]
        (started_s, processor_s), (ended_s, processor_end_s) = self._started, self._ended
        return {
            "frame_records": records,
            "start_time": self._began_s,
            "duration": ended_s - started_s,
            "sample_count": len(records),
            "start_call_stack": [names[code] for code in self._start],
            "target_description": "sample-profiler capture",
            "cpu_time": processor_end_s - processor_s,
        }
