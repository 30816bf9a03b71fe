"""Owns what is said of a search: the command line that it came to, what that rests on, and the page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape

from sample_profiler.analysis.comparing.comparison import PairedComparison
from sample_profiler.cli.tune.search import AS_IT_IS, MARGIN, Outcome
from sample_profiler.cli.tune.settings import Setting, flags_of
from sample_profiler.reports.comparison import describe_throughput
from sample_profiler.reports.run_report.page import titled_page
from sample_profiler.reports.sections.tables import format_table

__all__ = ["best_command", "describe_outcome", "describe_setting", "format_search"]

_MOST_ROWS = 12
_PERCENT = 100


def describe_setting(setting: Setting) -> str:
    """Return the flags of a setting, for people."""
    return shlex.join(flags_of(setting)) or "the command as it is"


def best_command(command: Sequence[str], outcome: Outcome) -> str:
    """Return the one command line that a search came to."""
    changed = tuple(f"--{name}=" for name, _ in outcome.best)
    return shlex.join([*(word for word in command if not word.startswith(changed or "\0")), *flags_of(outcome.best)])


def describe_outcome(command: Sequence[str], outcome: Outcome, also: Sequence[str]) -> str:
    """Return all that is to be said in a text.

    Args:
        command: that was tuned.
        outcome: of the search.
        also: further sentences.
    """
    titles, rows = _rows(outcome)
    parts = [format_table(titles, rows[:_MOST_ROWS], right={1, 2, 3}), *_sentences(outcome), *also]
    return "\n\n".join([*parts, best_command(command, outcome)])


def format_search(command: Sequence[str], outcome: Outcome, also: Sequence[str], about: str) -> str:
    """Return all of it as a page; arguments are those of `describe_outcome`, and what machine it is about."""
    titles, rows = _rows(outcome)
    most = max(outcome.worths.values(), default=1.0)
    cells = []
    for setting, row in zip(outcome.worths, rows, strict=True):
        width = _PERCENT * outcome.worths[setting] / most
        bar = f'<div class=bar><span style="width:{width:.1f}%;background:#3b6ea8">&nbsp;</span></div>'
        figures = "".join(f"<td class=n>{escape(cell)}</td>" for cell in row[1:])
        cells.append(f'<tr><td><code>{escape(row[0])}</code></td>{figures}<td style="width:35%">{bar}</td></tr>')
    head = "".join(f"<th{' class=n' if number else ''}>{escape(title)}</th>" for number, title in enumerate(titles))
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in (*_sentences(outcome), *also))
    return titled_page(
        "Tuned settings",
        about,
        f"<div class=verdict><div class=cause>Best command line</div><p><code>{escape(best_command(command, outcome))}"
        f"</code></p><ul>{said}</ul></div><section><h2>All settings</h2><div class=wide><table><tr>{head}<th></th></tr>"
        f"{''.join(cells)}</table></div></section>",
    )


def _rows(outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    rows = []
    for setting, worth in outcome.worths.items():
        fps = [run.fps for run in outcome.runs if run.setting == setting]
        seen = f"{min(fps):,.0f}" if len(fps) == 1 else f"{min(fps):,.0f} to {max(fps):,.0f}"
        rows.append([describe_setting(setting), f"{worth:.2f} ×", seen, str(len(fps))])
    return ["setting", "worth", "frames/s", "runs"], rows


def _sentences(outcome: Outcome) -> list[str]:
    said = []
    if outcome.best == AS_IT_IS:
        said.append(f"Nothing that was tried is faster than the command as it is by {_PERCENT * MARGIN:g} % or more.")
    if outcome.comparison is not None:
        said.append(_describe_comparison(outcome.comparison))
    if outcome.leaner is not None:
        worth = outcome.worths[outcome.leaner] / outcome.worths.get(outcome.best, 1.0)
        said.append(
            f"With fewer processes it is as fast within {_PERCENT * MARGIN:g} % ({_PERCENT * (worth - 1):+.1f} %): "
            f"{describe_setting(outcome.leaner)}"
        )
    if not outcome.is_complete:
        said.append("The search was interrupted: the same command line goes on with it.")
    elif outcome.num_untried:
        said.append(
            f"For {outcome.num_untried} settings there was no time: the same command line goes on, with more --minutes."
        )
    return said


def _describe_comparison(comparison: PairedComparison) -> str:
    return "A is the command as it is, B the best. " + describe_throughput(comparison, MARGIN)
