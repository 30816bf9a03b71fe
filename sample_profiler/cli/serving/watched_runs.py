"""Owns what is read of the runs of a folder for all who look at them: each run again only when it has changed.

One thread calls it, however many look. What it keeps of a run that nobody has opened is little: a line for the
list, and curves that are thinned out.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sample_profiler.analysis.window import process_identity
from sample_profiler.cli.serving.run_files import RunFiles, Stamp, documents_of, find_runs, read_log_end
from sample_profiler.errors import SessionError
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.reports.live_page import (
    Course,
    RunSummary,
    format_list,
    format_run,
    format_unreadable,
    summarize,
)
from sample_profiler.reports.run_report.loading import load_report
from sample_profiler.reports.sections.distance import DistantRun
from sample_profiler.vocabulary import PROGRESS

__all__ = ["Looked", "WatchedRuns"]

logger = logging.getLogger(__name__)

_READING_S = 0.5  # of one look, for runs that nobody has opened
_COURSE_S = 60.0
_NUM_KEPT = 8  # pages of runs, for who comes back


@dataclass(frozen=True)
class Looked:
    """What one look has found.

    Attributes:
        summaries: of all runs, by name, the latest first.
        pages: of the runs that are opened, by name: what their sections hold, by key.
        num_unread: runs that there was no time for yet.
        remarks: on what else may be in the folder, a sentence each.
    """

    summaries: dict[str, RunSummary]
    pages: dict[str, dict[str, str]]
    num_unread: int
    remarks: Sequence[str] = ()

    @cached_property
    def list_html(self) -> str:
        """The list of the runs, made once for all that show it."""
        return format_list(self.summaries.values(), self.num_unread, self.remarks)


@dataclass
class _Known:
    """What is known of one run."""

    files: RunFiles
    stamps: tuple[Stamp, ...] = ()
    summary: RunSummary | None = None
    page: dict[str, str] = field(default_factory=dict)
    may_go_on: bool = False
    distant: DistantRun = field(default_factory=DistantRun)
    progress_of: object = None  # the process
    progress: deque[tuple[float, float]] = field(default_factory=deque)

    def hide(self, summary: RunSummary) -> None:
        """Say no more than why the run cannot be shown."""
        self.summary, self.page, self.may_go_on = summary, format_unreadable(summary.problem), False


class WatchedRuns:
    """The runs below a folder.

    Args:
        train_dir: the folder.
    """

    def __init__(self, train_dir: Path) -> None:
        self._train_dir = train_dir
        self._known: dict[str, _Known] = {}
        self._paths: dict[str, Path] = {}
        self._opened: deque[str] = deque()

    @property
    def paths(self) -> dict[str, Path]:
        """The folders of all runs, by name, as of the last look."""
        return self._paths

    def look(self, opened: Collection[str]) -> Looked:
        """Look at all runs, and closely at those that somebody has opened."""
        found = find_runs(self._train_dir)
        self._paths = found.paths
        self._known = {name: self._known.get(name) or _Known(RunFiles(path)) for name, path in self._paths.items()}
        stamps = {name: self._stamps(name) for name in self._paths}
        latest = sorted(self._paths, key=lambda name: -_latest_ns(stamps[name]))
        self._let_pages_go(opened)
        until_s = time.monotonic() + _READING_S
        num_unread = 0
        for name in [*(name for name in latest if name in opened), *(name for name in latest if name not in opened)]:
            known = self._known[name]
            is_new = known.stamps != stamps[name] or known.summary is None
            if not (is_new or known.may_go_on or (name in opened and not known.page)):
                continue
            if name not in opened and time.monotonic() > until_s:
                num_unread += is_new
                continue
            self._read(name, stamps[name], is_opened=name in opened)
        summaries = {name: summary for name in latest if (summary := self._known[name].summary) is not None}
        pages = {name: self._known[name].page for name in opened if name in self._known}
        return Looked(summaries, pages, num_unread, found.remarks)

    def _stamps(self, name: str) -> tuple[Stamp, ...]:
        try:
            return self._known[name].files.fingerprint()
        except (SessionError, OSError) as error:
            self._known[name].hide(RunSummary(name, "cannot be read", problem=str(error)))
            return ()

    def _let_pages_go(self, opened: Collection[str]) -> None:
        """Forget what is in pages that were closed long ago, and of runs that are not there any more."""
        for name in opened:
            if name in self._opened:
                self._opened.remove(name)
            self._opened.append(name)
        while len(self._opened) > max(_NUM_KEPT, len(opened)):
            if (known := self._known.get(self._opened.popleft())) is not None:
                known.page = {}

    def _read(self, name: str, stamps: tuple[Stamp, ...], *, is_opened: bool) -> None:
        known, path = self._known[name], self._paths[name]
        if not stamps and known.summary is not None and not known.summary.verdict:
            return
        known.stamps = stamps
        try:
            self._show(known, name, path, is_opened=is_opened)
        except (SessionError, OSError) as error:
            known.hide(RunSummary(name, "has recorded nothing", problem=str(error)))
        except Exception as error:  # whatever files from elsewhere say, the other runs are shown
            logger.warning("The run %r cannot be shown", name, exc_info=True)
            known.hide(RunSummary(name, "cannot be shown", problem=f"{type(error).__name__}: {error}"))

    def _show(self, known: _Known, name: str, path: Path, *, is_opened: bool) -> None:
        report = load_report(path, with_events=is_opened)
        known.may_go_on = known.distant.lives(report.session)
        _note_progress(known, report.session)
        course = _course(known.progress) if known.may_go_on else Course()
        known.summary = summarize(name, report, course, is_live=known.may_go_on)
        if is_opened or known.page:
            documents = [(each.name, each.num_bytes, each.written_s) for each in documents_of(path).values()]
            known.page = format_run(known.summary, report, read_log_end(path), documents)


def _latest_ns(stamps: Iterable[Stamp]) -> int:
    return max((written_ns for _, written_ns, _ in stamps), default=0)


def _note_progress(known: _Known, session: Session) -> None:
    noted = known.progress
    for record in session.processes:
        for name, (owner, short) in record.gauge_owners().items():
            if owner and short == PROGRESS and math.isfinite(value := record.gauges[name].value):
                if (identity := process_identity(record)) != known.progress_of:  # started again: another clock and pace
                    known.progress_of = identity
                    noted.clear()
                moment_s = record.read_ns / NS_PER_S
                if not noted or noted[-1][0] < moment_s:
                    noted.append((moment_s, value))
    while len(noted) > 2 and noted[1][0] < noted[-1][0] - _COURSE_S:
        noted.popleft()


def _course(noted: deque[tuple[float, float]]) -> Course:
    """Return how far the run is, and how long it will take if it goes on as in the last minute."""
    if not noted:
        return Course()
    (begin_s, before), (end_s, now) = noted[0], noted[-1]
    if now >= 1 or now <= before:
        return Course(now, 0.0 if now >= 1 else None)
    return Course(now, (1 - now) * (end_s - begin_s) / (now - before))
