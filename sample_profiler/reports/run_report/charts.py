"""Colours of a page, and its charts of figures over time: plain SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

from sample_profiler.reports.sections.history import describe_figure, name_deviation
from sample_profiler.reports.sections.tables import format_duration, format_value

__all__ = [
    *("COLORS", "UNACCOUNTED", "WAIT_COLORS", "assign_colors", "draw_line", "format_charts"),
    "format_compared_charts",
    "ink_on",
]

COLORS = ("#3b6ea8", "#d08c60", "#7fb069", "#9067a7", "#5b9bd5", "#c9a227", "#4e9f9f", "#a05195")
WAIT_COLORS = ("#c8ccd2", "#d9dce1", "#b9bec6")
_DARK = ("#3b6ea8", "#9067a7", "#a05195", "#e4572e")
UNACCOUNTED = "#e4572e"

History: TypeAlias = Mapping[str, Sequence[tuple[float, float]]]
"""Pairs of seconds since a run began and value, by figure."""

_Point: TypeAlias = tuple[float, float]

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


def ink_on(color: str) -> str:
    """Return the colour of a text that can be read on one of these."""
    return "#fff" if color in _DARK else "#1d2530"


@dataclass(frozen=True)
class _Line:
    """What is drawn of one figure.

    Attributes:
        points: pairs of seconds and value.
        band: corners of the area around the line: there above it, back below it; none where nothing is known.
        color: of both.
    """

    points: Sequence[_Point]
    band: Sequence[_Point]
    color: str


def format_charts(history: History) -> str:
    """Return a chart for each figure that has more than one point, all of them over the same time.

    The standard deviation of a figure, where it is known, is a band around its line instead.
    """
    shown = _shown(history)
    span_s = _span_s([shown])
    charts = []
    for name, points in shown.items():
        if _is_of_another(name, shown):
            continue
        line = _line(name, shown, COLORS[0])
        spread = "; band: standard deviation" if line.band else ""
        values = [value for _, value in points]
        lowest, highest, last = map(format_value, (min(values), max(values), values[-1]))
        told = f"from {lowest} to {highest}, last {last}{spread}"
        charts.append(_figure(name, [line], span_s, f"<span class=dim>{told}</span>"))
    return f"<div class=charts>{''.join(charts)}</div>"


def format_compared_charts(histories: Mapping[str, History]) -> str:
    """Return a chart for each figure that one of several runs has, with a line for each of these.

    Args:
        histories: figures over the time of each run, by its name.
    """
    colors = {run: COLORS[number % len(COLORS)] for number, run in enumerate(histories)}
    all_shown = {run: _shown(history) for run, history in histories.items()}
    names = dict.fromkeys(name for shown in all_shown.values() for name in shown if not _is_of_another(name, shown))
    span_s = _span_s(all_shown.values())
    charts = []
    for name in names:
        lines = [_line(name, shown, colors[run]) for run, shown in all_shown.items() if name in shown]
        last = {run: format_value(shown[name][-1][1]) for run, shown in all_shown.items() if name in shown}
        keys = (f"{_key(colors[run])}{escape(run)} <b>{value}</b>" for run, value in last.items())
        legend = " ".join(f"<span class=legend>{key}</span>" for key in keys)
        charts.append(_figure(name, lines, span_s, f"<br><span class=dim>{legend}</span>"))
    return f"<div class=charts>{''.join(charts)}</div>"


def _key(color: str) -> str:
    return f'<span class=key style="background:{color}"></span>'


def _shown(history: History) -> dict[str, Sequence[_Point]]:
    return {name: points for name, points in history.items() if len(points) > 1}


def _is_of_another(name: str, shown: History) -> bool:
    """Tell whether a figure is the deviation of another that is there."""
    return any(name == name_deviation(other) for other in shown)


def _span_s(histories: Iterable[History]) -> tuple[float, float]:
    times_s = [time_s for history in histories for points in history.values() for time_s, _ in points]
    return min(times_s, default=0.0), max(times_s, default=0.0)


def _line(name: str, shown: History, color: str) -> _Line:
    """Return the line of a figure, with its band: there above it, back below it."""
    known = dict(shown.get(name_deviation(name), ()))
    around = [(time_s, value, known[time_s]) for time_s, value in shown[name] if time_s in known]
    above = [(time_s, value + deviation) for time_s, value, deviation in around]
    below = [(time_s, value - deviation) for time_s, value, deviation in around]
    band = [point for point in (*above, *reversed(below)) if math.isfinite(point[1])]
    return _Line(shown[name], band, color)


def draw_line(points: Sequence[_Point], band: Sequence[_Point], span_s: tuple[float, float]) -> str:
    """Return a picture of a figure over time, as SVG.

    Args:
        points: pairs of seconds and value.
        band: corners of an area around them, or beside them.
        span_s: from when to when the picture goes.
    """
    return _picture([_Line(points, band, COLORS[0])], span_s)


def _figure(name: str, lines: Sequence[_Line], span_s: tuple[float, float], told: str) -> str:
    """Return a chart and its caption; what is told there is HTML already."""
    caption = f"{escape(describe_figure(name))} {told}"
    return f"<figure>{_picture(lines, span_s)}<figcaption>{caption}</figcaption></figure>"


def _picture(lines: Sequence[_Line], span_s: tuple[float, float]) -> str:
    """Return lines as SVG; its `data-scale` is what a script needs to tell values by places: ends of time and value."""
    first_s, last_s = span_s
    values = [value for line in lines for _, value in (*line.points, *line.band)]
    lowest, highest = min(0.0, *values), max(0.0, *values)
    if highest <= lowest:
        highest = lowest + 1.0  # a chart of nothing but zeros has a scale, too
    right, bottom = _WIDTH - _PAD, _HEIGHT - _BOTTOM

    def place(time_s: float, value: float) -> str:
        x = _LEFT + (right - _LEFT) * (time_s - first_s) / max(last_s - first_s, 1e-9)
        # In halves: there may be no number as large as the whole height.
        y = bottom - (bottom - _PAD) * ((value / 2 - lowest / 2) / (highest / 2 - lowest / 2))
        return f"{x:.1f},{y:.2f}"

    def draw(line: _Line) -> str:
        corners, area = (" ".join(place(*point) for point in some) for some in (line.points, line.band))
        return (
            f'<polygon points="{area}" fill="{line.color}" fill-opacity="0.2"/>'
            f'<polyline points="{corners}" fill="none" stroke="{line.color}" stroke-width="1.6"/>'
        )

    labels = (
        (_LEFT - 5, _PAD + 8, "end", format_value(highest)),
        (_LEFT - 5, bottom, "end", format_value(lowest)),
        (_LEFT, _HEIGHT - 3, "start", format_duration(first_s)),
        (right, _HEIGHT - 3, "end", format_duration(last_s)),
    )
    texts = "".join(f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>' for x, y, anchor, text in labels)
    size = f'width="{right - _LEFT}" height="{bottom - _PAD}"'
    scale = " ".join(f"{end:.6g}" for end in (first_s, last_s, lowest, highest))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" data-scale="{scale}">'
        f'<rect x="{_LEFT}" y="{_PAD}" {size} class="plot"/>'
        f"{''.join(map(draw, lines))}{texts}</svg>"
    )
