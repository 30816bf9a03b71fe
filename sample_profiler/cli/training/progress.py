"""Owns what a run shows while it goes on: a progress bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sample_profiler.cli.common.progress import Course, describe_left
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.records.statistics import RunStatus
from sample_profiler.run.runner import Runner

__all__ = ["LogProgress", "TerminalProgress", "make_progress"]

logger = logging.getLogger(__name__)

_LOG_INTERVAL_S = 10.0


def make_progress(console: Console, target_frames: int, target_s: float) -> TerminalProgress | LogProgress:
    """Return the bar where there is a terminal, else plain lines."""
    if console.is_terminal:
        return TerminalProgress(console, target_frames, target_s)
    return LogProgress()


class TerminalProgress(RunObserver):
    """A progress bar below the log.

    Args:
        console: that the log is written to, too.
        target_frames: at which the run ends, per policy.
        target_s: seconds after which it ends.
    """

    def __init__(self, console: Console, target_frames: int, target_s: float) -> None:
        self._target_s = target_s
        self._progress = Progress(
            TextColumn("{task.percentage:>3.0f}%"),
            BarColumn(bar_width=24),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            refresh_per_second=2,
        )
        self._course = Course("starting", total=1.0)
        self._task = self._progress.add_task(self._course.text, total=1.0, left="")
        self._target_frames = target_frames
        self._progress.start()

    def on_status(self, status: RunStatus) -> None:
        """Move the bar."""
        by_frames = min(status.frames.values()) / self._target_frames
        self._course.reach(max(by_frames, status.elapsed_s / self._target_s), describe_status(status))
        left = describe_left(self._course.left_s())
        self._progress.update(self._task, completed=self._course.share, description=self._course.text, left=left)

    def on_stop(self, runner: Runner) -> None:  # noqa: ARG002
        """Remove the bar, and leave its last words in the log."""
        self._progress.stop()
        logger.info("%s", self._progress.tasks[0].description)

    def close(self) -> None:
        """Give the terminal back, also when the run could not end in order."""
        self._progress.stop()


class LogProgress(RunObserver):
    """A log line every ten seconds."""

    def __init__(self) -> None:
        self._next_s = time.monotonic() + _LOG_INTERVAL_S
        self._latest: RunStatus | None = None

    def on_status(self, status: RunStatus) -> None:
        """Write a line if it is time."""
        self._latest = status
        if time.monotonic() >= self._next_s:
            self._next_s += _LOG_INTERVAL_S
            logger.info("%s", describe_status(status))

    def on_stop(self, runner: Runner) -> None:  # noqa: ARG002
        """Write how the run was at its end."""
        if self._latest is not None:
            logger.info("%s", describe_status(self._latest))

    def close(self) -> None:
        """Nothing."""


def describe_status(status: RunStatus) -> str:
    """Say in one line how a run is: throughput over 10/60/300 s, frames, reward, policy lag."""
    rates = " / ".join(f"{rate:,.0f}" for rate in status.fps.values())
    parts = [f"FPS {rates} ({'/'.join(map(str, status.fps))} s)", f"frames {_join(status.frames.values())}"]
    rewards = {policy: episodes["reward"] for policy, episodes in status.episodes.items() if "reward" in episodes}
    if rewards:
        shown = (f"{rewards[policy]:.3f}" if policy in rewards else "-" for policy in status.frames)
        parts.append("reward " + " ".join(shown))
    parts.append("lag " + " ".join(f"{mean:.1f}/{highest:.0f}" for mean, highest in status.policy_lag.values()))
    return "  ".join(parts)


def _join(values: Iterable[int]) -> str:
    return " ".join(f"{value:,}" for value in values)
