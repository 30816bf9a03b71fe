"""Owns captures of memory: what was allocated during a capture and is still there at its end, by call stack.

memray is told of every allocation of every thread, of Python's and of the C library's, and follows the calls of Python
by the hook that all such profilers share.
"""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sample_profiler.errors import CaptureError
from sample_profiler.profiling.captures.interpreter.call_hook import CallHook, lost_place, name_any_hook
from sample_profiler.profiling.captures.interpreter.replaced import Replaced

__all__ = ["Memray"]

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_NOWHERE = ("not in Python", "", 0)


class Memray:
    """What the memory of this process has grown by."""

    def __init__(self) -> None:
        try:
            import memray  # noqa: F401 (what is missing is told before the capture)
        except ImportError as error:
            raise CaptureError("memray is not installed: pip install 'sample_profiler[memray]'") from error
        self._folder = Path()
        self._tracker: Any = None
        self._hook: CallHook | None = None
        self._threads_hook: Any = None
        self._replaced = Replaced()

    def start(self) -> None:
        """Begin.

        Raises:
            RuntimeError: memray is at work in this process already.
            ValueError: another profiler is in its way.
        """
        import memray

        other = name_any_hook() or ("threading.setprofile" if threading.getprofile() else None)
        if other is not None:
            raise ValueError(f"another profiler runs in this process ({other})")
        self._folder = Path(tempfile.mkdtemp(prefix="sample_profiler_memray_"))
        self._tracker = memray.Tracker(self._folder / "allocations.bin")
        try:
            self._tracker.__enter__()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._hook = CallHook(is_in_all_threads=True)
        self._threads_hook = threading.getprofile()
        self._replaced.replace(threading, "getprofile", self._hide)

    def stop(self) -> None:
        """End.

        Raises:
            CaptureError: another profiler has taken its place meanwhile: the stacks would be wrong from then on.
        """
        assert self._hook is not None
        self._replaced.put_back()
        threads_hook = threading.getprofile()
        successor = self._hook.end(functools.partial(self._tracker.__exit__, None, None, None))
        if threads_hook is not self._threads_hook:
            threading.setprofile(threads_hook)
            successor = successor or "threading.setprofile"
        if successor is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise lost_place("memray", successor)

    def write(self, path: Path) -> bool:
        """Write a speedscope document whose weights are bytes; return whether there is anything in it."""
        import memray

        frames: dict[tuple[str, str, int], int] = {}
        samples: list[list[int]] = []
        weights: list[int] = []
        try:
            with memray.FileReader(self._folder / "allocations.bin") as reader:
                for record in reader.get_leaked_allocation_records(merge_threads=True):
                    stack = [(name, file, line) for name, file, line in record.stack_trace()] or [_NOWHERE]
                    samples.append([frames.setdefault(frame, len(frames)) for frame in reversed(stack)])
                    weights.append(record.size)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        profile = {
            **{"type": "sampled", "name": "growth", "unit": "bytes", "startValue": 0, "endValue": sum(weights)},
            **{"samples": samples, "weights": weights},
        }
        shared = [{"name": name, "file": file, "line": line} for name, file, line in frames]
        path.write_text(json.dumps({"$schema": _SCHEMA, "shared": {"frames": shared}, "profiles": [profile]}))
        return bool(samples)

    def _hide(self, getprofile: Callable[[], Any]) -> Callable[[], Any]:
        @functools.wraps(getprofile)
        def show_those_of_others() -> Any:
            hook = getprofile()
            return None if hook is self._threads_hook else hook

        return show_those_of_others
