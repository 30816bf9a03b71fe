"""Owns how comparisons of runs look in texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sample_profiler.analysis.comparison import MOST_EXACT, PairedComparison
from sample_profiler.analysis.cost_changes import CountChange
from sample_profiler.reports.sections.tables import format_table

__all__ = ["describe_throughput", "format_block_changes", "format_counts"]

_MAX_ROWS = 12


def describe_throughput(comparison: PairedComparison, margin: float) -> str:
    """Say in a sentence or two whether B is faster than A."""
    percent, pairs = f"{100 * (comparison.ratio - 1):+.1f} %", _count_pairs(comparison.num_pairs)
    if comparison.interval is None:
        return f"It cannot be told from {pairs} which is faster: {percent}. {_ask_for_more(comparison)}"
    interval = _format_interval(comparison.interval, 1)
    figures = f"{percent} (95 % interval {interval}, {_format_p_value(comparison)}, {pairs})"
    match comparison.outcome:
        case "higher":
            return f"B is faster: {figures}"
        case "lower":
            return f"B is slower: {figures}"
        case "equivalent":
            return f"B is as fast as A within {100 * margin:g} %: {figures}"
    return f"It cannot be told yet which is faster: {figures}. {_ask_for_more(comparison)}"


def format_counts(changes: Sequence[CountChange]) -> str:
    """Return a table of the blocks that one setting goes through more often than the other.

    Args:
        changes: of the counts, in the order of the table.
    """
    if not changes:
        return "Passes through blocks per 1,000 frames: no difference"
    rows = []
    for change in changes[:_MAX_ROWS]:
        ratio = f"{change.b / change.a:.2f} ×" if change.a and change.b else ""
        rows.append([change.path, *(f"{count:,.3g}" if count else "none" for count in (change.a, change.b)), ratio])
    table = format_table(["passes per 1,000 frames", "A", "B", "B / A"], rows, right={1, 2, 3})
    return table + (f"\n… and {len(changes) - _MAX_ROWS} more" if len(changes) > _MAX_ROWS else "")


def format_block_changes(
    changes: Mapping[str, PairedComparison], tested: Sequence[str], title: str = "time per frame"
) -> str:
    """Return a table of how much time blocks take; intervals are in it only if any of these changes has one.

    Args:
        changes: by block.
        tested: those of them that were chosen, whose outcomes and p-values count; of the others there are intervals
            alone.
        title: what is compared.
    """
    has_intervals = any(comparison.interval is not None for comparison in changes.values())
    rows = []
    for path, comparison in changes.items():
        row = [path, f"{100 * (comparison.ratio - 1):+.1f} %"]
        if has_intervals:
            row.append(_format_interval(comparison.interval, 0) if comparison.interval is not None else "")
        rows.append([*row, _describe_test(comparison) if path in tested else ""])
    titles = [title, "B to A", *(["95 % interval"] if has_intervals else []), ""]
    return format_table(titles, rows, right=set(range(1, len(titles) - 1)))


def _describe_test(comparison: PairedComparison) -> str:
    outcome = {"higher": "slower", "lower": "faster"}.get(comparison.outcome, comparison.outcome)
    more = f"; {_ask_for_more(comparison)}" if comparison.outcome == "inconclusive" else ""
    return f"{outcome}, {_format_p_value(comparison)}{more}"


def _ask_for_more(comparison: PairedComparison) -> str:
    return f"About {_count_pairs(comparison.num_more, ' more')} would tell in 8 of 10 cases"


def _count_pairs(number: int, which: str = "") -> str:
    return f"{number}{which} pair{'s' if number > 1 else ''}"


def _format_p_value(comparison: PairedComparison) -> str:
    return f"p = {comparison.p_value:.3f}{', drawn' if comparison.num_pairs > MOST_EXACT else ''}"


def _format_interval(interval: tuple[float, float], digits: int) -> str:
    low, high = (f"{100 * (end - 1):+.{digits}f} %" for end in interval)
    return f"{low} to {high}"
