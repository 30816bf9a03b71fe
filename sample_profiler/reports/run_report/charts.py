"""Colours of a page, and its charts of figures over time: plain SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from sample_profiler.reports.sections.history import describe_figure, name_deviation
from sample_profiler.reports.sections.tables import format_duration, format_value

__all__ = ["COLORS", "UNACCOUNTED", "WAIT_COLORS", "assign_colors", "draw_line", "format_charts"]

COLORS = ("#3b6ea8", "#d08c60", "#7fb069", "#9067a7", "#5b9bd5", "#c9a227", "#4e9f9f", "#a05195")
WAIT_COLORS = ("#c8ccd2", "#d9dce1", "#b9bec6")
UNACCOUNTED = "#e4572e"

_Point = tuple[float, float]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _PAD = 330, 130, 54, 16, 6


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
    """Return a chart for each figure that has more than one point, all of them over the same time.

    The standard deviation of a figure, where it is known, is a band around its line instead.
    """
    shown = {name: points for name, points in history.items() if len(points) > 1}
    deviations = {name: shown[name_deviation(name)] for name in shown if name_deviation(name) in shown}
    times_s = [time_s for points in shown.values() for time_s, _ in points]
    charts = [
        _figure(name, points, _band(points, deviations.get(name, ())), (min(times_s), max(times_s)))
        for name, points in shown.items()
        if name not in map(name_deviation, deviations)
    ]
    return f"<div class=charts>{''.join(charts)}</div>"


def _band(points: Sequence[_Point], deviations: Sequence[_Point]) -> list[_Point]:
    """Return the corners of the band around a line: there above it, back below it."""
    known = dict(deviations)
    around = [(time_s, value, known[time_s]) for time_s, value in points if time_s in known]
    above = [(time_s, value + deviation) for time_s, value, deviation in around]
    below = [(time_s, value - deviation) for time_s, value, deviation in around]
    return [point for point in (*above, *reversed(below)) if math.isfinite(point[1])]


def _figure(name: str, points: Sequence[_Point], band: Sequence[_Point], span_s: tuple[float, float]) -> str:
    values = [value for _, value in points]
    spread = "; band: standard deviation" if band else ""
    lowest, highest, last = map(format_value, (min(values), max(values), values[-1]))
    values_told = f"from {lowest} to {highest}, last {last}{spread}"
    caption = f"{escape(describe_figure(name))} <span class=dim>{values_told}</span>"
    return f"<figure>{draw_line(points, band, span_s)}<figcaption>{caption}</figcaption></figure>"


def draw_line(points: Sequence[_Point], band: Sequence[_Point], span_s: tuple[float, float]) -> str:
    """Return a picture of a figure over time, as SVG.

    Args:
        points: pairs of seconds and value.
        band: corners of an area around them, or beside them.
        span_s: from when to when the picture goes.
    """
    first_s, last_s = span_s
    values = [value for _, value in (*points, *band)]
    lowest, highest = min(0.0, *values), max(0.0, *values)
    if highest <= lowest:
        highest = lowest + 1.0  # a chart of nothing but zeros has a scale, too
    right, bottom = _WIDTH - _PAD, _HEIGHT - _BOTTOM

    def place(time_s: float, value: float) -> str:
        x = _LEFT + (right - _LEFT) * (time_s - first_s) / max(last_s - first_s, 1e-9)
        # In halves: there may be no number as large as the whole height.
        y = bottom - (bottom - _PAD) * ((value / 2 - lowest / 2) / (highest / 2 - lowest / 2))
        return f"{x:.1f},{y:.1f}"

    corners, area = (" ".join(place(*point) for point in some) for some in (points, band))
    labels = (
        (_LEFT - 5, _PAD + 8, "end", format_value(highest)),
        (_LEFT - 5, bottom, "end", format_value(lowest)),
        (_LEFT, _HEIGHT - 3, "start", format_duration(first_s)),
        (right, _HEIGHT - 3, "end", format_duration(last_s)),
    )
    texts = "".join(f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>' for x, y, anchor, text in labels)
    size = f'width="{right - _LEFT}" height="{bottom - _PAD}"'
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"><rect x="{_LEFT}" y="{_PAD}" {size} fill="#f7f9fa"/>'
        f'<polygon points="{area}" fill="{COLORS[0]}" fill-opacity="0.2"/>'
        f'<polyline points="{corners}" fill="none" stroke="{COLORS[0]}" stroke-width="1.6"/>{texts}</svg>'
    )
