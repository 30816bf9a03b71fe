"""Notes when the mean return of a training is good enough; runs in each framework's Python, imports nothing.

The environment variable BENCHMARK_BEGAN says when the process was started (seconds since the epoch).
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

NUM_AVERAGED = 100
_CURVE_INTERVAL_S = 0.5


class Returns:
    """Takes in returns until their mean over the latest 100 episodes is good enough, or time is over.

    Use as a context, which writes what came of it at its end.

    Args:
        path: of the JSON that is written: `seconds` and `frames` until it was good enough, or until the end if it was
            not, `is_reached`, and `curve`, a list of `[frames, seconds, mean]`.
        threshold: from which a mean is good enough.
        seconds: since the process was started, after which time is over.
    """

    def __init__(self, path: str, threshold: float, seconds: float) -> None:
        self._path = Path(path)
        self._threshold, self._most_s = threshold, seconds
        self._began_s = float(os.environ["BENCHMARK_BEGAN"])
        self._latest: deque[float] = deque(maxlen=NUM_AVERAGED)
        self._curve: list[tuple[int, float, float]] = []
        self._frames = 0
        self._reached_s: float | None = None

    def __enter__(self) -> Returns:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Write what there is."""
        seconds = self._passed_s() if self._reached_s is None else self._reached_s
        told = {"seconds": round(seconds, 3), "frames": self._frames, "is_reached": self._reached_s is not None}
        self._path.write_text(json.dumps({**told, "curve": self._curve}))

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to train for."""
        return self._reached_s is not None or self._passed_s() >= self._most_s

    def end_episode(self, episode_return: float, frames: int) -> None:
        """Take in the return of an episode that has ended when there were so many frames."""
        self._latest.append(episode_return)
        self.note(lambda: sum(self._latest) / NUM_AVERAGED, len(self._latest), frames)

    def note(self, mean: Callable[[], float], num_averaged: int, frames: int) -> None:
        """Take in the mean return of the latest episodes when there were so many frames."""
        if self._reached_s is not None:
            return
        self._frames = frames
        if num_averaged < NUM_AVERAGED:
            return
        value, passed_s = mean(), self._passed_s()
        if value >= self._threshold:
            self._reached_s = passed_s
        if self.is_over or not self._curve or passed_s >= self._curve[-1][1] + _CURVE_INTERVAL_S:
            self._curve.append((frames, round(passed_s, 2), round(value, 3)))

    def _passed_s(self) -> float:
        return time.time() - self._began_s
