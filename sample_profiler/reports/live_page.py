"""Owns how runs look in the live page: a line of each in the list, their curves on the same axes, and all of one run.

The figures are those of the report: what is drawn here is made by what draws that.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from urllib.parse import quote

from sample_profiler.profiling.tree.render import printable, printable_text
from sample_profiler.reports.run_report.charts import History, format_compared_charts
from sample_profiler.reports.run_report.page import report_sections, section_html, table_html, verdict_html
from sample_profiler.reports.run_report.report import RunReport, describe_failure, describe_run
from sample_profiler.reports.sections.history import (
    EPISODE_LENGTH,
    EPISODE_RETURN,
    name_deviation,
    name_figure,
)
from sample_profiler.reports.sections.tables import format_duration, format_percent, format_value
from sample_profiler.reports.status import describe_state, format_status
from sample_profiler.vocabulary import FPS, FRAMES

__all__ = [
    *("Course", "RunSummary", "format_compared", "format_gone", "format_list", "format_run"),
    "format_unreadable",
    "summarize",
]

_MOST_POINTS = 120  # of a curve in the list
_MOST_POLICIES = 4
_LONGEST_S = 90 * 86_400  # a run that is to end later than that is not meant to
_MIB = 2**20
_VIDEOS = (".mp4", ".gif")
_TIMELINES, _STACKS = (".json", ".json.gz", ".pftrace", ".pftrace.gz"), ".speedscope.json"


@dataclass(frozen=True)
class Course:
    """How far a run is on its way.

    Attributes:
        share: of what it is to do; None: not known.
        left_s: how long it will take; None: not known.
    """

    share: float | None = None
    left_s: float | None = None


@dataclass(frozen=True)
class RunSummary:
    """What the list says of a run.

    Attributes:
        name: of the run.
        state: as in "is running".
        is_live: whether it goes on, as far as can be told.
        verdict: what limits it; empty: it cannot be read.
        frames: that it has been trained on; None: not known.
        fps: of its latest seconds, or of all of it once it has ended; None: not known.
        episode_return: the latest mean, of the first policy; None: there is none.
        course: how far it is.
        history: the curves of the list.
        problem: why it failed, or what of it cannot be read; empty: nothing.
    """

    name: str
    state: str
    is_live: bool = False
    verdict: str = ""
    frames: int | None = None
    fps: float | None = None
    episode_return: float | None = None
    course: Course = Course()
    history: History = field(default_factory=dict)
    problem: str = ""

    @cached_property
    def row(self) -> Sequence[str]:
        """Its line in the list, entry by entry as HTML; made once: of most runs nothing changes."""
        return _list_row(self)


def summarize(name: str, report: RunReport, course: Course, *, is_live: bool) -> RunSummary:
    """Return what the list says of a run.

    Args:
        name: of the run.
        report: on it.
        course: how far it is.
        is_live: whether it goes on, as far as can be told.
    """
    run, history = report.session.run, report.history
    frames = sum(run["frames"].values()) if isinstance(run.get("frames"), dict) else _gauge(report, FRAMES)
    fps = run.get("fps") if not is_live else _gauge(report, FPS)
    returns = history.get(name_figure(EPISODE_RETURN, 0), ())
    failure = describe_failure(report.session)
    figures = [
        name_figure(each, policy) for each in (EPISODE_RETURN, EPISODE_LENGTH) for policy in range(_MOST_POLICIES)
    ]
    wanted = {FPS, *figures, *map(name_deviation, figures)}
    return RunSummary(
        name=name,
        state=describe_state(report.session),
        is_live=is_live,
        verdict=report.verdict.headline,
        frames=None if frames is None else int(frames),
        fps=float(fps) if isinstance(fps, int | float) else None,
        episode_return=returns[-1][1] if returns else None,
        course=course,
        problem=f"failed: {failure}" if failure else next(iter(report.problems), ""),
        history={figure: _thinned(points) for figure, points in history.items() if figure in wanted},
    )


def _gauge(report: RunReport, name: str) -> float | None:
    """Return what the Runner tells; None: it does not."""
    for record in report.session.processes:
        for gauge, (owner, short) in record.gauge_owners().items():
            if short == name and owner:
                return record.gauges[gauge].value
    return None


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return every so many-th point, and the last."""
    step = -(-len(points) // _MOST_POINTS)
    return [*points[:-1:step], points[-1]]


def format_list(summaries: Iterable[RunSummary], num_unread: int = 0, remarks: Iterable[str] = ()) -> str:
    """Return the table of the runs.

    Args:
        summaries: of the runs, in the order of the lines.
        num_unread: further runs that were not read yet.
        remarks: on what else may be in the folder, a sentence each.
    """
    rows = [summary.row for summary in summaries]
    sentences = [f"{num_unread:,} more are being read."] if num_unread else []
    told = "".join(f"<p class=dim>{escape(printable(sentence))}</p>" for sentence in (*sentences, *remarks))
    if not rows:
        return told or "<p>There are no runs in this folder yet.</p>"
    titles = ["", "run", "return", "frames", "frames/s", "done", "left", "what limits it"]
    return table_html(titles, rows, right={2, 3, 4, 5, 6}) + told


def _list_row(summary: RunSummary) -> list[str]:
    name = escape(printable(summary.name))
    address = f"run?name={quote(summary.name, safe='')}"
    state = f"<br><span class={'going' if summary.is_live else 'dim'}>{escape(printable(summary.state))}</span>"
    box = f'<input type=checkbox class=compare value="{escape(summary.name)}" aria-label="compare {name}">'
    return [
        box if summary.verdict else "",
        f'<a href="{escape(address)}">{name}</a>{state}',
        "" if summary.episode_return is None else format_value(summary.episode_return),
        "" if summary.frames is None else f"{summary.frames:,}",
        "" if summary.fps is None else f"{summary.fps:,.0f}",
        "" if summary.course.share is None else format_percent(summary.course.share),
        _describe_left(summary.course),
        "<br>".join(escape(printable(text)) for text in (summary.verdict, summary.problem) if text),
    ]


def _describe_left(course: Course) -> str:
    if course.left_s is None or course.left_s > _LONGEST_S:
        return ""
    return format_duration(course.left_s)


def format_compared(summaries: Iterable[RunSummary]) -> str:
    """Return the curves of several runs, one chart for each figure with all of them."""
    histories = {printable(summary.name): summary.history for summary in summaries if summary.history}
    if not histories:
        return "<p class=dim>None of these runs has noted figures over time yet.</p>"
    return format_compared_charts(histories)


def format_gone() -> dict[str, str]:
    """Return the sections of a run that was there."""
    return {"head": "<p>There is no such run in this folder any more: it was removed or renamed.</p>"}


def format_unreadable(problem: str) -> dict[str, str]:
    """Return the sections of a run that cannot be read."""
    return {"head": f"<p>{escape(printable_text(problem))}</p>"}


def format_run(
    summary: RunSummary, report: RunReport, log_end: str, documents: Sequence[tuple[str, int, float]]
) -> dict[str, str]:
    """Return all that there is to be said of a run, in sections by key, in the order of the page.

    Args:
        summary: of the run.
        report: on it.
        log_end: the last lines of its log.
        documents: timelines, captures and videos: name, bytes, when written in seconds since 1970.
    """
    sections = report_sections(report)
    first = ("Over time", "Where the time went", "Blocks", "Workers side by side")
    status = f"<pre class=wide>{escape(format_status(report.session))}</pre>"
    log = f"<pre class='wide log'>{escape(printable_text(log_end))}</pre>" if log_end else ""
    files = _format_documents(summary.name, documents) if documents else ""
    return {
        "head": _format_head(summary, report),
        "verdict": verdict_html(report.verdict),
        **{title: section_html(title, sections[title]) for title in first if title in sections},
        "Who does what now": section_html("Who does what, and waits for whom", status),
        "Last lines of the log": section_html("Last lines of the log", log) if log else "",
        "Timelines": section_html("Timelines, captures and videos", files) if files else "",
        **{title: section_html(title, content) for title, content in sections.items() if title not in first},
    }


def _format_head(summary: RunSummary, report: RunReport) -> str:
    now = [f"{summary.frames:,} frames"] if summary.is_live and summary.frames is not None else []
    now += [f"{summary.fps:,.0f} frames/s"] if summary.is_live and summary.fps is not None else []
    told = escape(printable(" · ".join([f"The run {summary.state}", *now, describe_run(report)])))
    share = summary.course.share
    if share is None:
        return f"<p class=dim>{told}</p>"
    left = _describe_left(summary.course)
    bar = f"<progress max=1 value={min(1.0, share):.4f}></progress> {format_percent(share)}"
    return f"<p class=dim>{told}</p><p>{bar}{f', {left} left' if left else ''}</p>"


def _format_documents(run: str, documents: Sequence[tuple[str, int, float]]) -> str:
    rows = []
    for name, num_bytes, written_s in documents:
        address = escape(f"name={quote(run, safe='')}&file={quote(name, safe='')}")
        shown = escape(printable(name))
        opens = (
            f'<a href="timeline?{address}">open</a>' if name.endswith(_TIMELINES) and not name.endswith(_STACKS) else ""
        )
        if name.endswith(_VIDEOS):
            opens = f'<a href="file?{address}">play</a>'
        written = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(written_s))
        rows.append([f'<a href="file?{address}" download>{shown}</a>', opens, f"{num_bytes / _MIB:,.1f} MiB", written])
    return table_html(["file", "", "size", "written"], rows, right={2})
