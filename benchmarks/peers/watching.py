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


class Watch:
    """Looks 20 times a second how many frames have been trained on, in a thread; use as a context.

    Args:
        path: of the JSON list to write at the end.
        read_frames: returns the number of frames so far.
    """

    def __init__(self, path: str, read_frames: Callable[[], int]) -> None:
        self._path = Path(path)
        self._read_frames = read_frames
        self._began_s = float(os.environ["BENCHMARK_BEGAN"])
        self._points: list[tuple[float, int]] = []
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
        self._look()
        self._path.write_text(json.dumps(self._points))

    def _watch(self) -> None:
        while not self._is_over.wait(_INTERVAL_S):
            self._look()

    def _look(self) -> None:
        frames = self._read_frames()
        if frames and (not self._points or frames > self._points[-1][1]):
            self._points.append((round(time.time() - self._began_s, 3), frames))
