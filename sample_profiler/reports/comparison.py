"""Owns how comparisons of runs look in texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sample_profiler.analysis.comparing.comparison import MOST_EXACT, PairedComparison
from sample_profiler.analysis.comparing.cost_changes import CountChange
from sample_profiler.analysis.comparing.times_to import TimesComparison, TimeTo
from sample_profiler.reports.sections.tables import format_table

__all__ = ["describe_throughput", "describe_time_to", "describe_times", "format_block_changes", "format_counts"]

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


def describe_time_to(time: TimeTo) -> str:
    """Say when a run got there."""
    after = f"{time.seconds:.1f} s and {time.frames:,} frames"
    return after if time.is_reached else f"not in {after}"


def describe_times(comparison: TimesComparison, goal: str, margin: float) -> str:
    """Say whether B gets somewhere sooner than A, and what that rests on.

    Args:
        comparison: of their times.
        goal: where to.
        margin: differences up to this share do not matter.
    """
    rows = [
        [
            "AB"[which],
            f"{comparison.num_reached[which]} of {comparison.num_pairs}",
            _format_median(comparison.medians[which], "{:,.1f} s"),
            _format_median(comparison.median_frames[which], "{:,.0f}"),
        ]
        for which in (0, 1)
    ]
    table = format_table([goal, "reached it", "median", "frames"], rows, right={1, 2, 3})
    return f"{table}\n\n{_conclude_times(comparison, margin)}"


def _format_median(median: float | None, text: str) -> str:
    return "not half" if median is None else text.format(median)


def _conclude_times(comparison: TimesComparison, margin: float) -> str:
    figures = f"p = {comparison.p_value:.3f}, {_count_pairs(comparison.num_pairs)}"
    if (ratios := comparison.ratios) is not None:
        ends = "" if ratios.interval is None else "95 % interval {:.2f} to {:.2f}, ".format(*ratios.interval)
        figures = f"{ratios.ratio:.2f} × as long ({ends}{figures})"
    match comparison.outcome:
        case "lower":
            said = f"B gets there sooner: {figures}"
        case "higher":
            said = f"B gets there later: {figures}"
        case "equivalent":
            said = f"B gets there as soon as A within {100 * margin:g} %: {figures}"
        case _:
            more = "More pairs, or longer runs, could tell" if ratios is None else _ask_for_more(ratios)
            said = f"It cannot be told yet which gets there sooner: {figures}. {more}"
    if ratios is not None:
        return said
    return (
        f"{said}\nA run that did not get there counts as one that takes longer than all that had by the time it ended; "
        "of two such runs nothing is known"
    )


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
