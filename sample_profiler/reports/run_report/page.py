"""Owns the page of a report: one file that needs nothing else, no network and no script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from sample_profiler.analysis.accounts import ComponentAccount
from sample_profiler.analysis.learning.verdict import LearningProblem
from sample_profiler.analysis.lives import Life
from sample_profiler.analysis.trends.trend import Trend
from sample_profiler.analysis.verdict import Verdict
from sample_profiler.config import show_value
from sample_profiler.profiling.tree.render import format_device
from sample_profiler.reports.run_report.charts import (
    COLORS,
    UNACCOUNTED,
    WAIT_COLORS,
    assign_colors,
    draw_line,
    format_charts,
    ink_on,
)
from sample_profiler.reports.run_report.report import BlockFigures, RunReport, describe_run
from sample_profiler.reports.run_report.style import STYLE
from sample_profiler.reports.sections.accounts import SPLIT_NOTE, SPLIT_TITLES, split_rows
from sample_profiler.reports.sections.lives import STAGE_TITLES, WORST_TITLES, describe_lag, stage_rows, worst_rows
from sample_profiler.reports.sections.memory import MEMORY_TITLES, MemoryCourse, memory_rows
from sample_profiler.reports.sections.ranks import RANK_TITLES, RankFigures, rank_rows
from sample_profiler.reports.sections.tables import format_duration, format_percent, format_seconds
from sample_profiler.reports.sections.workers import WORKER_TITLES, WorkerFigures, worker_rows
from sample_profiler.vocabulary import WAIT

__all__ = ["format_html", "page_html", "report_sections", "section_html", "table_html", "titled_page", "verdict_html"]

_NARROWEST = 0.002  # of the wall: what is narrower cannot be seen
_MIN_LABEL = 0.06


def format_html(report: RunReport) -> str:
    """Return the page."""
    sections = "".join(section_html(title, content) for title, content in report_sections(report).items())
    return titled_page(report.name, describe_run(report), verdict_html(report.verdict) + sections)


def titled_page(title: str, subtitle: str, content: str) -> str:
    """Return a page with a title and a line below it; its content is HTML already."""
    head = f"<h1>{escape(title)}</h1><div class=dim>{escape(subtitle)}</div>"
    return page_html(title, head + content)


def page_html(title: str, content: str) -> str:
    """Return a page that needs nothing else; its content is HTML already."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body>{content}</body></html>\n"
    )


def report_sections(report: RunReport) -> dict[str, str]:
    """Return what the sections of the page hold, by their titles; those that there is nothing for are left out."""
    sections = {
        "What changed over time": _trends(report.trends) if report.trends else "",
        "What keeps it from learning": _learning(report.learning) if report.learning else "",
        "Where the time went": _accounts(report.accounts),
        "Blocks": _icicles(report.trees),
        "Over time": format_charts(report.history) if report.history else "",
        "The life of a trajectory": _lives(report.lives) if report.lives else "",
        "Memory of each process": _memory(report.memory) if report.memory else "",
        "Ranks side by side": _ranks(report.ranks) if report.ranks else "",
        "Workers side by side": _workers(report.workers) if report.workers else "",
        "Slowest single passes": _slowest(report.slowest) if report.slowest else "",
        "Machine and configuration": _settings(report),
    }
    return {title: content for title, content in sections.items() if content}


def section_html(title: str, content: str) -> str:
    """Return a section of the page; the content is HTML already."""
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def verdict_html(verdict: Verdict) -> str:
    """Return what limits the run, what shows that, and what to try."""
    evidence = "".join(f"<li>{escape(sentence)}</li>" for sentence in verdict.evidence)
    rows = []
    for advice in verdict.advice:
        expected = "" if advice.fps is None else f"{advice.fps[0]:,.0f} to {advice.fps[1]:,.0f} frames/s"
        change = escape(advice.change)
        change = f"<code>{change}</code>" if change.startswith("--") else change
        rows.append([change, escape(advice.why), expected])
    now = f" <span class=dim>({verdict.fps:,.0f} frames/s over {verdict.seconds:.0f} s)</span>" if verdict.fps else ""
    table = table_html(["what to try", "why", "expected"], rows, right={2}) if rows else ""
    return (
        f"<div class=verdict><div class=cause>Verdict: {escape(verdict.cause)}</div>"
        f"<p>{escape(verdict.headline)}{now}</p><ul>{evidence}</ul>{table}</div>"
    )


def _trends(trends: Sequence[Trend]) -> str:
    return "".join(_found(trend.cause, trend.headline, trend.evidence, trend.advice) for trend in trends)


def _learning(problems: Sequence[LearningProblem]) -> str:
    return "".join(_found(each.cause, each.headline, each.evidence, each.advice) for each in problems)


def _found(cause: str, headline: str, evidence: Sequence[str], advice: str) -> str:
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in evidence)
    told = f"<p class=dim>try {escape(advice)}</p>" if advice else ""
    return f"<div class=cause>{escape(cause)}</div><b>{escape(headline)}</b><ul>{sentences}</ul>{told}"


def _accounts(accounts: Sequence[ComponentAccount]) -> str:
    if not accounts:
        return "<p>There are no record files of this run.</p>"
    colors = assign_colors([each.work_ns for each in accounts])
    waits = assign_colors([each.waits_ns for each in accounts], WAIT_COLORS)
    bars = []
    for each in accounts:
        parts = [(key, value, colors[key]) for key, value in each.work_ns.items()]
        parts += [(f"waits for {key}", value, waits[key]) for key, value in each.waits_ns.items()]
        parts.append(("unaccounted", each.unaccounted_ns, UNACCOUNTED))
        spans = [
            _span(f"{key} {format_percent(share)}", share, color)
            for key, value, color in parts
            if (share := each.share(value)) >= _NARROWEST
        ]
        bars.append(f"<div class=row><b>{escape(each.component)}</b><div class=bar>{''.join(spans)}</div></div>")
    rows = [
        [
            escape(each.component),
            f"{each.wall_s:,.1f} s",
            format_percent(each.share(sum(each.work_ns.values()))),
            format_percent(each.share(sum(each.waits_ns.values()))),
            format_percent(each.share(each.unaccounted_ns)),
            "unknown" if each.run_delay_s is None else f"{each.run_delay_s:,.1f} s",
        ]
        for each in accounts
    ]
    titles = ["component", "wall", "work", "waits", "unaccounted", "without a processor"]
    keys = [(color, "") for color in COLORS[:3]]
    keys += [(COLORS[3], "work, by block"), (WAIT_COLORS[0], "waiting, and for whom"), (UNACCOUNTED, "in no block")]
    legend = "".join(f'<span class=key style="background:{color}"></span>{text}' for color, text in keys)
    note = (
        "Without a processor: how long threads of its process were ready to run while others had the cores, all of "
        "them together. That time is part of whatever they were doing."
    )
    return (
        f"<p class=dim>{legend}</p><div class=bars>{''.join(bars)}</div>"
        f"{table_html(titles, rows, right={1, 2, 3, 4, 5})}"
        f'<p class="dim note">{note}</p>'
        f"{table_html(SPLIT_TITLES, [list(map(escape, row)) for row in split_rows(accounts)], right={1, 2, 3, 4})}"
        f'<p class="dim note">{SPLIT_NOTE}</p>'
    )


def _span(title: str, share: float, color: str) -> str:
    text = escape(title) if share >= _MIN_LABEL else ""
    style = f"width:{100 * share:.2f}%;background:{color};color:{ink_on(color)}"
    return f'<span style="{style}" title="{escape(title)}">{text}</span>'


def _icicles(trees: dict[str, BlockFigures]) -> str:
    colors = assign_colors(_siblings(trees.values()))
    return "".join(
        f"<details {'open' if number < _NUM_OPEN else ''}><summary>{escape(component)} "
        f"<span class=dim>{format_duration(tree.passes.total_s)}</span></summary>"
        f"{_icicle(tree, colors)}{_block_table(tree)}</details>"
        for number, (component, tree) in enumerate(trees.items())
    )


_NUM_OPEN = 4


def _icicle(tree: BlockFigures, colors: dict[str, str]) -> str:
    boxes: list[str] = []
    depth = 0
    stack = [(child, 0) for child in tree.children]
    while stack:
        figures, level = stack.pop()
        if figures.share < _NARROWEST:
            continue
        depth = max(depth, level + 1)
        passes = figures.passes
        title = (
            f"{figures.key}: {format_duration(passes.total_s)} ({format_percent(figures.share)}), "
            f"{passes.count:,} times, mean {format_seconds(passes.mean_s)}, median {format_seconds(passes.p50_s)}, "
            f"99 % below {format_seconds(passes.p99_s)}, longest {format_seconds(passes.max_s)}; the slowest 1 % take "
            f"{format_percent(passes.slowest_percent_share)} of the time, 0.1 % "
            f"{format_percent(passes.slowest_permille_share)}"
        )
        is_wait = figures.key.startswith(WAIT)
        color = WAIT_COLORS[0] if is_wait else colors[figures.key]
        width = min(figures.share, 1 - figures.start)
        label = f"{figures.key} {format_percent(figures.share)}" if figures.share >= _MIN_LABEL else ""
        place = f"left:{100 * figures.start:.2f}%;width:{100 * width:.2f}%;top:{20 * level}px"
        style = f"{place};background:{color};color:{ink_on(color)}"
        boxes.append(f'<div style="{style}" title="{escape(title)}">{escape(label)}</div>')
        stack.extend((child, level + 1) for child in figures.children)
    return f'<div class=icicle style="height:{20 * depth + 4}px">{"".join(boxes)}</div>'


def _block_table(tree: BlockFigures) -> str:
    rows, devices = [], []
    stack = [(child, 0) for child in reversed(tree.children)]
    while stack:
        figures, level = stack.pop()
        passes = figures.passes
        devices.append(format_device(figures.device))
        rows.append(
            [
                f'<span style="padding-left:{14 * level}px">{escape(figures.key)}</span>',
                f"{passes.total_s:,.2f} s",
                format_percent(figures.share),
                f"{passes.count:,}",
                format_seconds(passes.mean_s),
                format_seconds(passes.p50_s),
                format_seconds(passes.p99_s),
                format_seconds(passes.max_s),
            ]
        )
        stack.extend((child, level + 1) for child in reversed(figures.children))
    titles = ["block", "total", "share", "passes", "mean", "median", "99 %", "longest"]
    if any(devices):
        titles.append("device, s")
        rows = [[*row, device] for row, device in zip(rows, devices, strict=True)]
    table = table_html(titles, rows, right=set(range(1, len(titles))))
    return f"<details><summary class=dim>all figures</summary>{table}</details>"


def _lives(lives: Sequence[Life]) -> str:
    stages = [list(map(escape, row)) for row in stage_rows(lives)]
    worst = [list(map(escape, row)) for row in worst_rows(lives)]
    return (
        f'<p class="dim note">{describe_lag(lives)}</p>'
        f"{table_html(STAGE_TITLES, stages, right=set(range(1, len(STAGE_TITLES))))}"
        f"<details><summary class=dim>the slowest</summary>{table_html(WORST_TITLES, worst, right={1, 2, 4})}"
        '<p class="dim note">A timeline of the same seconds (sample-profiler trace) has them on tracks of their own.'
        "</p></details>"
    )


_MOST_MEMORY_CHARTS = 24


def _memory(courses: Sequence[MemoryCourse]) -> str:
    """Return a picture for each process, all over the same time: a line for its own memory, an area for the shared."""
    times_s = [time_s for course in courses for time_s, _ in course.resident]
    span_s = min(times_s), max(times_s)
    pictures = []
    for course in courses[:_MOST_MEMORY_CHARTS]:
        own, (_, all_mib) = course.private[-1][1], course.resident[-1]
        told = f"own {own:,.0f} MiB, shared {max(0.0, all_mib - own):,.0f} MiB at last"
        caption = f"{escape(course.process)} <span class=dim>{told}</span>"
        area = [*course.resident, *reversed(course.private)]
        pictures.append(f"<figure>{draw_line(course.private, area, span_s)}<figcaption>{caption}</figcaption></figure>")
        if len(course.gpu) > 1:
            caption = f"{escape(course.process)} <span class=dim>GPU {course.gpu[-1][1]:,.0f} MiB at last</span>"
            pictures.append(f"<figure>{draw_line(course.gpu, (), span_s)}<figcaption>{caption}</figcaption></figure>")
    rows = [list(map(escape, row)) for row in memory_rows(courses)]
    table = table_html(MEMORY_TITLES, rows, right=set(range(1, len(MEMORY_TITLES))))
    note = "MiB. Line: what is the process's own; area above it: what it shares with others, such as the trajectories."
    details = f"<details><summary class=dim>all figures</summary>{table}</details>"
    return f'<div class=charts>{"".join(pictures)}</div><p class="dim note">{note}</p>{details}'


def _ranks(ranks: Sequence[RankFigures]) -> str:
    return table_html(
        RANK_TITLES, [list(map(escape, row)) for row in rank_rows(ranks)], right=set(range(2, len(RANK_TITLES)))
    )


def _workers(workers: Sequence[WorkerFigures]) -> str:
    rows = [[escape(entry) for entry in row] for row in worker_rows(workers)]
    return table_html(WORKER_TITLES, rows, right=set(range(1, len(WORKER_TITLES))))


def _slowest(slowest: Sequence[tuple[str, str, float]]) -> str:
    rows = [[escape(component), escape(path), format_seconds(seconds)] for component, path, seconds in slowest]
    return table_html(["component", "block", "took"], rows, right={2})


def _settings(report: RunReport) -> str:
    machine = [[escape(str(key)), escape(str(value))] for key, value in report.session.machine.items()]
    config = [
        [f"<code>--{escape(str(key))}</code>", escape(show_value(value))]
        for key, value in report.session.config.items()
    ]
    problems = "".join(f"<p>{escape(problem)}</p>" for problem in report.problems)
    return (
        f"{problems}{table_html(['machine', ''], machine)}"
        f"<details><summary>{len(config)} flags</summary>{table_html(['flag', 'value'], config)}</details>"
    )


def table_html(
    titles: Sequence[str], rows: Iterable[Sequence[str]], right: set[int] | frozenset[int] = frozenset()
) -> str:
    """Return a table.

    Args:
        titles: of the columns, as text.
        rows: of as many entries each, which are HTML already.
        right: numbers of the columns that are aligned to the right.
    """

    def cell(tag: str, number: int, text: str) -> str:
        return f"<{tag}{' class=n' if number in right else ''}>{text}</{tag}>"

    head = "".join(cell("th", number, escape(title)) for number, title in enumerate(titles))
    body = "".join(f"<tr>{''.join(cell('td', n, text) for n, text in enumerate(row))}</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _siblings(trees: Iterable[BlockFigures]) -> Iterable[list[str]]:
    """Yield the keys of blocks that lie side by side."""
    stack = list(trees)[::-1]
    while stack:
        figures = stack.pop()
        yield [child.key for child in figures.children]
        stack.extend(reversed(figures.children))
