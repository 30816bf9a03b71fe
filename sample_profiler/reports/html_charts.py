"""Colours of a page, and its charts of figures over time: plain SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from sample_profiler.reports.history import describe_figure
from sample_profiler.reports.tables import format_duration

__all__ = ["COLORS", "UNACCOUNTED", "WAIT_COLORS", "assign_colors", "format_charts"]

COLORS = ("#3b6ea8", "#d08c60", "#7fb069", "#9067a7", "#5b9bd5", "#c9a227", "#4e9f9f", "#a05195")
WAIT_COLORS = ("#c8ccd2", "#d9dce1", "#b9bec6")
UNACCOUNTED = "#e4572e"

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _PAD = 330, 130, 44, 16, 6


def assign_colors(groups: Iterable[Iterable[str]], colors: Sequence[str] = COLORS) -> dict[str, str]:
    """Return a colour for each key: the same wherever it is, and another one than its neighbours', as far as they go.

    Args:
        groups: keys that are seen side by side.
        colors: to choose from.
    """
    chosen: dict[str, str] = {}
    for group in groups:
        keys = list(group)
        taken = [chosen[key] for key in keys if key in chosen]
        for key in keys:
            if key not in chosen:
                # Of those that are seen least often here the one after that of the last new key.
                turn = [colors[(len(chosen) + step) % len(colors)] for step in range(len(colors))]
                chosen[key] = min(turn, key=taken.count)
                taken.append(chosen[key])
    return chosen


def format_charts(history: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return a chart for each figure that has more than one point."""
    charts = [
        f"<figure>{_line(points)}<figcaption>{escape(describe_figure(name))} <span class=dim>from "
        f"{min(v for _, v in points):,.4g} to {max(v for _, v in points):,.4g}, last {points[-1][1]:,.4g}</span>"
        "</figcaption></figure>"
        for name, points in history.items()
        if len(points) > 1
    ]
    return f"<div class=charts>{''.join(charts)}</div>"


def _line(points: Sequence[tuple[float, float]]) -> str:
    first_s, last_s = points[0][0], points[-1][0]
    lowest, highest = min(0.0, *(value for _, value in points)), max(0.0, *(value for _, value in points))
    if highest <= lowest:
        highest = lowest + 1.0  # a chart of nothing but zeros has a scale, too
    right, bottom = _WIDTH - _PAD, _HEIGHT - _BOTTOM

    def place(time_s: float, value: float) -> str:
        x = _LEFT + (right - _LEFT) * (time_s - first_s) / max(last_s - first_s, 1e-9)
        y = bottom - (bottom - _PAD) * (value - lowest) / (highest - lowest)
        return f"{x:.1f},{y:.1f}"

    corners = " ".join(place(*point) for point in points)
    labels = (
        (_LEFT - 5, _PAD + 8, "end", f"{highest:,.4g}"),
        (_LEFT - 5, bottom, "end", f"{lowest:,.4g}"),
        (_LEFT, _HEIGHT - 3, "start", format_duration(first_s)),
        (right, _HEIGHT - 3, "end", format_duration(last_s)),
    )
    texts = "".join(f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>' for x, y, anchor, text in labels)
    size = f'width="{right - _LEFT}" height="{bottom - _PAD}"'
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"><rect x="{_LEFT}" y="{_PAD}" {size} fill="#f7f9fa"/>'
        f'<polyline points="{corners}" fill="none" stroke="{COLORS[0]}" stroke-width="1.6"/>{texts}</svg>'
    )
