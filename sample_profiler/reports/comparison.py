"""Owns how comparisons of runs look in texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sample_profiler.analysis.comparison import PairedComparison
from sample_profiler.analysis.costs import RunCosts
from sample_profiler.reports.tables import format_table

__all__ = ["describe_throughput", "format_block_changes", "format_counts"]

_MAX_ROWS = 12
_SAME_COUNT = 0.005
_BY_THE_CLOCK = frozenset({"receive", "report_statistics", "save_checkpoint", "timers", "watch_processes"})
"""Blocks that are entered so many times a second, or as messages happen to come: per frame their counts are noise."""


def describe_throughput(comparison: PairedComparison, margin: float) -> str:
    """Say in a sentence or two whether B is faster than A."""
    percent = 100 * (comparison.ratio - 1)
    if comparison.interval is None:
        more = comparison.num_more
        return f"It cannot be told from one pair which is faster: {percent:+.1f} %. About {more} more would tell"
    interval = _format_interval(comparison.interval, 1)
    figures = f"{percent:+.1f} % (95 % interval {interval}, p = {comparison.p_value:.3f}, {comparison.num_pairs} pairs)"
    match comparison.outcome:
        case "higher":
            return f"B is faster: {figures}"
        case "lower":
            return f"B is slower: {figures}"
        case "equivalent":
            return f"B is as fast as A within {100 * margin:g} %: {figures}"
    more = comparison.num_more
    return (
        f"It cannot be told yet which is faster: {figures}. About {more} more pair{'s' if more > 1 else ''} would tell"
    )


def format_counts(first: RunCosts, second: RunCosts) -> str:
    """Return the blocks that one run goes through more often than the other: counts carry no noise."""
    rows = []
    for path in sorted(first.blocks.keys() | second.blocks.keys()):
        if _BY_THE_CLOCK & set(path.split("/")):
            continue
        a, b = first.blocks.get(path), second.blocks.get(path)
        if a is None or b is None:
            rows.append((1e9, path, f"{a.passes:,.3g}" if a else "none", f"{b.passes:,.3g}" if b else "none", ""))
        elif not path.rpartition("/")[2].startswith("wait_") and abs(b.passes / a.passes - 1) > _SAME_COUNT:
            rows.append(
                (
                    abs(b.passes / a.passes - 1),
                    path,
                    f"{a.passes:,.3g}",
                    f"{b.passes:,.3g}",
                    f"{b.passes / a.passes:.2f} ×",
                )
            )
    if not rows:
        return "Passes through blocks per 1,000 frames: the same everywhere"
    rows.sort(reverse=True)
    table = format_table(
        ["passes per 1,000 frames", "A", "B", "B / A"], [list(row[1:]) for row in rows[:_MAX_ROWS]], right={1, 2, 3}
    )
    return table + (f"\n… and {len(rows) - _MAX_ROWS} more" if len(rows) > _MAX_ROWS else "")


def format_block_changes(
    changes: Mapping[str, PairedComparison], tested: Sequence[str], title: str = "time per frame"
) -> str:
    """Return a table of how much time blocks take; intervals are in it only if any of these changes has one.

    Args:
        changes: by block.
        tested: those of them that were chosen, whose outcomes count; of the others there are intervals alone.
        title: what is compared.
    """
    has_intervals = any(comparison.interval is not None for comparison in changes.values())
    rows = []
    for path, comparison in changes.items():
        row = [path, f"{100 * (comparison.ratio - 1):+.1f} %"]
        if has_intervals:
            row.append(_format_interval(comparison.interval, 0) if comparison.interval is not None else "")
        outcome = {"higher": "slower", "lower": "faster"}.get(comparison.outcome, comparison.outcome)
        rows.append([*row, outcome if path in tested else ""])
    titles = [title, "B to A", *(["95 % interval"] if has_intervals else []), ""]
    return format_table(titles, rows, right=set(range(1, len(titles) - 1)))


def _format_interval(interval: tuple[float, float], digits: int) -> str:
    low, high = (f"{100 * (end - 1):+.{digits}f} %" for end in interval)
    return f"{low} to {high}"
