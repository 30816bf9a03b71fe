"""Owns how plain tables and numbers look in texts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sample_profiler.profiling.tree.render import printable

__all__ = ["format_duration", "format_percent", "format_seconds", "format_table", "format_value", "shorten"]

_GAP = "  "


def format_table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Return a table with columns as wide as their widest entry; what is not printable in these is escaped.

    Args:
        titles: of the columns.
        rows: of as many entries each.
        right: numbers of the columns that are aligned to the right.
    """
    table = [[printable(entry) for entry in row] for row in (titles, *rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(titles))]
    lines = []
    for row in table:
        cells = (
            entry.rjust(width) if column in right else entry.ljust(width)
            for column, (entry, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(_GAP.join(cells).rstrip())
    return "\n".join(lines)


def format_percent(share: float) -> str:
    """Return a share of 1 in percent; with a decimal below ten, where it may matter."""
    percent = 100 * share
    return f"{percent:.0f}%" if percent >= 9.95 or percent == 0 else f"{percent:.1f}%"


def format_duration(seconds: float) -> str:
    """Return a duration for people: ``850 ms``, ``12.3 s``, ``4 min 05 s``, ``2 h 03 min``."""
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds) // 60
    return f"{minutes} min {int(seconds) % 60:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def format_seconds(seconds: float) -> str:
    """Return how long a pass took, with two decimals or one: ``1.23 s``, ``4.56 ms``, ``7.8 µs``."""
    if seconds >= 1:
        return f"{seconds:,.2f} s"
    return f"{1e3 * seconds:.2f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.1f} µs"


def format_value(value: float) -> str:
    """Return a number of any size: ``0.001234``, ``13.91``, ``22,105``, ``1.234e+08``."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.4g}"


def shorten(text: str, width: int) -> str:
    """Return a text of at most `width` characters; what is cut off at its begin is shown by ``…``."""
    return text if len(text) <= width else f"…{text[len(text) - width + 1 :]}"
