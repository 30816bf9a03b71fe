"""Notes when a training framework has trained on how many frames; runs in each framework's Python, imports nothing.

The environment variable BENCHMARK_BEGAN says when the process was started (seconds since the epoch).
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

_INTERVAL_S = 0.05


class Curve:
    """Frames trained on against time; use as a context, which writes the JSON list at its end.

    Args:
        path: of the list.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._began_s = float(os.environ["BENCHMARK_BEGAN"])
        self._points: list[tuple[float, int]] = []

    def __enter__(self) -> Curve:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Write what there is."""
        self._path.write_text(json.dumps(self._points))

    def note(self, frames: int) -> None:
        """Note the time if more frames have been trained on than at the last call."""
        if frames > (self._points[-1][1] if self._points else 0):
            self._points.append((round(time.time() - self._began_s, 4), frames))


class Watch(Curve):
    """Looks 20 times a second, in a thread; for frameworks that do not call back.

    Args:
        path: of the list.
        read_frames: returns the number of frames so far.
    """

    def __init__(self, path: str, read_frames: Callable[[], int]) -> None:
        super().__init__(path)
        self._read_frames = read_frames
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="watch")

    def __enter__(self) -> Watch:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look for the last time, and write."""
        self._is_over.set()
        self._thread.join()
        self.note(self._read_frames())
        super().__exit__()

    def _watch(self) -> None:
        while not self._is_over.wait(_INTERVAL_S):
            self.note(self._read_frames())
