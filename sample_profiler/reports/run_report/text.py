"""Owns the text of a report: the figures of the page, for a terminal or a file."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from statistics import median

from sample_profiler.analysis.lives import Life
from sample_profiler.config import show_value
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.render import format_tree, printable_text
from sample_profiler.reports.run_report.report import RunReport, describe_run
from sample_profiler.reports.sections.accounts import format_accounts, format_device, format_splits
from sample_profiler.reports.sections.history import describe_figure
from sample_profiler.reports.sections.learning import format_learning
from sample_profiler.reports.sections.lives import STAGE_TITLES, WORST_TITLES, describe_lag, stage_rows, worst_rows
from sample_profiler.reports.sections.memory import MEMORY_TITLES, MemoryCourse, memory_rows
from sample_profiler.reports.sections.ranks import RANK_TITLES, RankFigures, rank_rows
from sample_profiler.reports.sections.tables import format_seconds, format_table, format_value
from sample_profiler.reports.sections.trends import format_trends
from sample_profiler.reports.sections.verdict import format_verdict
from sample_profiler.reports.sections.workers import WORKER_TITLES, WorkerFigures, worker_rows

__all__ = ["format_text", "format_verdicts"]

_WIDTH = 120


def format_text(report: RunReport) -> str:
    """Return verdict, changes, accounts, what work was, figures over time, workers, slowest passes, trees, flags."""
    sections = [
        format_verdicts(report),
        describe_run(report),
        format_accounts(report.accounts),
        format_device(report.device_use),
        _section("What work was", format_splits(report.accounts)),
        _section("Over time", _history(report.history)),
        _section("The life of a trajectory", _lives(report.lives)),
        _section("Memory of each process, MiB", _memory(report.memory)),
        _section("Ranks side by side", _ranks(report.ranks)),
        _section("Workers side by side", _workers(report.workers)),
        _section("Slowest single passes", _slowest(report.slowest)),
        *_trees(report.session),
        _section("Machine", "\n".join(f"{key}: {value}" for key, value in report.session.machine.items())),
        _section("Flags", _flags(report.session)),
        _section("Problems", "\n".join(report.problems)),
    ]
    # What a session says of its machine, its end or its flags may come from anywhere.
    return printable_text("\n\n".join(filter(None, sections)))


def format_verdicts(report: RunReport) -> str:
    """Return what limits a run, what changed over its time, and what keeps it from learning; only what there is."""
    parts = [
        f"Verdict on {report.name}: {format_verdict(report.verdict)}",
        _section("What changed over time", format_trends(report.trends)),
        _section("What keeps it from learning", format_learning(report.learning)),
    ]
    return printable_text("\n\n".join(filter(None, parts)))


def _section(title: str, content: str) -> str:
    return f"{title}\n{content}" if content else ""


def _history(history: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    rows = []
    for name, points in history.items():
        values = [value for _, value in points]
        figures = (min(values), median(values), max(values), values[-1])
        rows.append([describe_figure(name), *map(format_value, figures)])
    return format_table(["figure", "lowest", "median", "highest", "last"], rows, right={1, 2, 3, 4}) if rows else ""


def _lives(lives: Sequence[Life]) -> str:
    if not lives:
        return ""
    stages = format_table(STAGE_TITLES, stage_rows(lives), right=set(range(1, len(STAGE_TITLES))))
    worst = format_table(WORST_TITLES, worst_rows(lives), right={1, 2, 4})
    return f"{describe_lag(lives)}\n{stages}\n\n{worst}"


def _memory(courses: Sequence[MemoryCourse]) -> str:
    rows = memory_rows(courses)
    return format_table(MEMORY_TITLES, rows, right=set(range(1, len(MEMORY_TITLES)))) if rows else ""


def _ranks(ranks: Sequence[RankFigures]) -> str:
    rows = rank_rows(ranks)
    return format_table(RANK_TITLES, rows, right=set(range(2, len(RANK_TITLES)))) if rows else ""


def _workers(workers: Sequence[WorkerFigures]) -> str:
    rows = worker_rows(workers)
    return format_table(WORKER_TITLES, rows, right=set(range(1, len(WORKER_TITLES)))) if rows else ""


def _slowest(slowest: Sequence[tuple[str, str, float]]) -> str:
    rows = [[component, path, format_seconds(seconds)] for component, path, seconds in slowest]
    return format_table(["component", "block", "took"], rows, right={2}) if rows else ""


def _trees(session: Session) -> list[str]:
    trees = []
    for record in session.processes:
        trees += [format_tree(record.titles.get(name, name), record.trees[name]) for name in record.components]
        trees += [format_tree(f"{record.name} {name}", record.trees[name]) for name in record.timers]
    return trees


def _flags(session: Session) -> str:
    flags = " ".join(f"--{name}={show_value(value)}" for name, value in session.config.items())
    return textwrap.fill(flags, _WIDTH, break_long_words=False, break_on_hyphens=False)
