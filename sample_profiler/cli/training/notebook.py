"""Owns what a run shows in a notebook while it goes on: a panel under the cell, with its curves."""

from __future__ import annotations

import logging
from html import escape
from importlib import import_module
from typing import Any

from sample_profiler.cli.training.progress import describe_status
from sample_profiler.reports.run_report.charts import format_charts
from sample_profiler.reports.sections.history import EPISODE_LENGTH, EPISODE_RETURN, name_figure
from sample_profiler.reports.sections.tables import format_duration, format_percent
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.records.history import History
from sample_profiler.run.records.statistics import RunStatus
from sample_profiler.run.runner import Runner
from sample_profiler.vocabulary import FPS

__all__ = ["NotebookProgress"]

logger = logging.getLogger(__name__)

_STYLE = """
.sample_profiler .charts { display: flex; flex-wrap: wrap; gap: 14px; }
.sample_profiler figure { margin: 0; width: 320px; }
.sample_profiler .plot { fill: #8881; } .sample_profiler text { font-size: 10px; fill: #888; }
.sample_profiler progress { width: 320px; } .sample_profiler .dim { opacity: .7; }
"""
_FIGURES = {"reward": EPISODE_RETURN, "len": EPISODE_LENGTH}


class NotebookProgress(RunObserver):
    """A panel under the cell that trains, which stays when the run has ended."""

    def __init__(self) -> None:
        self._history = History()
        self._latest: RunStatus | None = None
        self._panel = _ipython().display(_html("<p>starting …</p>"), display_id=True)

    def on_status(self, status: RunStatus) -> None:
        """Show the run as it is now."""
        self._latest = status
        figures = {FPS: next(iter(status.fps.values()), 0.0)}
        for policy, episodes in status.episodes.items():
            figures |= {name_figure(_FIGURES[name], policy): episodes[name] for name in _FIGURES if name in episodes}
        self._history.add(status.elapsed_s, figures)
        self._show(status)

    def on_stop(self, runner: Runner) -> None:
        """Say how it ended, and leave its last words in the log."""
        if self._latest is not None:
            self._show(self._latest, runner.reason)
            logger.info("%s", describe_status(self._latest))

    def close(self) -> None:
        """Nothing."""

    def _show(self, status: RunStatus, reason: str = "") -> None:
        told = f"{format_percent(status.progress)}, {format_duration(status.elapsed_s)}: {describe_status(status)}"
        bar = f"<progress max=1 value={status.progress:.4f}></progress> {escape(told)}"
        ended = f"<p>{escape(reason)}</p>" if reason else ""
        self._panel.update(_html(f"<p>{bar}</p>{ended}{format_charts(self._history.points())}"))


def _ipython() -> Any:
    """Return what shows something in a notebook; it is there, since this is one, and has no types."""
    return import_module("IPython.display")


def _html(content: str) -> Any:
    return _ipython().HTML(f'<div class="sample_profiler"><style>{_STYLE}</style>{content}</div>')
