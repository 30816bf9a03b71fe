"""Draw learning curves, measured by `benchmarks.learning`, as an SVG picture for the documentation.

    python -m benchmarks.learning_picture benchmarks/results/learning-cartpole.json docs/images/learning-cartpole.svg

Settings are colours, seeds are lines; mean reward of the latest episodes against frames, and against minutes beside it.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 1180, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 56, 46
GAP = 70
TEXT, GRID, THRESHOLD = "#222222", "#e2e2e2", "#888888"
COLORS = ("#1d3557", "#e76f51", "#2a9d8f", "#9b5de5", "#c9a227")


def ticks(low: float, high: float, num: int = 5) -> list[float]:
    """Return round numbers that cover an interval."""
    step = 10 ** math.floor(math.log10((high - low) / num or 1))
    step = next(step * factor for factor in (1, 2, 5, 10) if step * factor * num >= high - low)
    return [step * i for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


def label(value: float) -> str:
    """Return a number as a tick shows it."""
    return f"{value / 1e6:g} M" if abs(value) >= 1e6 else f"{value / 1e3:g} k" if abs(value) >= 1e3 else f"{value:g}"


class Panel:
    """One coordinate system."""

    def __init__(self, left: float, right: float, x: Sequence[float], y: Sequence[float], name: str) -> None:
        self._x_ticks, self._y_ticks = ticks(0, max(x)), ticks(min(y), max(y))
        self._left, self._right, self._name = left, right, name

    def place(self, x: float, y: float) -> str:
        """Return where a point is."""
        low, high = self._y_ticks[0], self._y_ticks[-1]
        across = self._left + x / self._x_ticks[-1] * (self._right - self._left)
        return f"{across:.1f},{HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - BOTTOM - TOP):.1f}"

    def grid(self) -> list[str]:
        """Return lines and labels of both axes."""
        shapes = []
        for y in self._y_ticks:
            x1, y1 = self.place(0, y).split(",")
            shapes.append(f'<line x1="{x1}" x2="{self._right}" y1="{y1}" y2="{y1}" stroke="{GRID}"/>')
            shapes.append(f'<text x="{self._left - 8}" y="{float(y1) + 4:.1f}" text-anchor="end">{label(y)}</text>')
        for x in self._x_ticks:
            across = self.place(x, self._y_ticks[0]).split(",")[0]
            shapes.append(f'<text x="{across}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label(x)}</text>')
        middle = (self._left + self._right) / 2
        return [*shapes, f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{self._name}</text>']

    def line(self, points: Sequence[tuple[float, float]], color: str) -> str:
        """Return a curve."""
        path = " ".join(self.place(*point) for point in points)
        return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.8" stroke-opacity="0.85"/>'

    def threshold(self, y: float) -> str:
        """Return a dashed line at a height."""
        begin = self.place(0, y).split(",")
        return (
            f'<line x1="{begin[0]}" x2="{self._right}" y1="{begin[1]}" y2="{begin[1]}" stroke="{THRESHOLD}" '
            'stroke-dasharray="5 4"/>'
        )


def draw(document: dict[str, Any], title: str) -> str:
    """Return the picture of all runs of a document."""
    runs = document["runs"]
    rewards = [point[2] for run in runs for point in run["curve"]] + [document["threshold"]]
    middle = (WIDTH - GAP + LEFT) / 2
    frames = Panel(LEFT, middle - RIGHT, [run["curve"][-1][0] for run in runs], rewards, "frames")
    minutes = Panel(middle + GAP - RIGHT, WIDTH - RIGHT, [run["wall_s"] / 60 for run in runs], rewards, "minutes")
    settings = list(dict.fromkeys(run["setting"] for run in runs))
    colors = dict(zip(settings, COLORS, strict=False))
    shapes = [f'<text x="{LEFT}" y="20" font-weight="bold">{escape(title)}</text>']
    across = LEFT
    for setting in settings:
        num = sum(run["setting"] == setting for run in runs)
        text = f"{setting}, {num} seed{'s' if num > 1 else ''}"
        shapes.append(f'<rect x="{across}" y="32" width="12" height="12" fill="{colors[setting]}"/>')
        shapes.append(f'<text x="{across + 17}" y="42">{escape(text)}</text>')
        across += 34 + 7 * len(text)
    for panel in (frames, minutes):
        shapes += [*panel.grid(), panel.threshold(document["threshold"])]
    for run in runs:
        shapes.append(frames.line([(x, y) for x, _, y in run["curve"]], colors[run["setting"]]))
        shapes.append(minutes.line([(s / 60, y) for _, s, y in run["curve"]], colors[run["setting"]]))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            f'font-size="12" fill="{TEXT}">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            *shapes,
            "</svg>\n",
        ]
    )


def main() -> None:
    """Read curves and write a picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="written by benchmarks.learning")
    parser.add_argument("picture", type=Path, help="the SVG to write")
    parser.add_argument("--title", help="above the picture; default: the name of the results")
    options = parser.parse_args()
    title = options.title or options.results.stem
    options.picture.write_text(draw(json.loads(options.results.read_text()), title))


if __name__ == "__main__":
    main()
