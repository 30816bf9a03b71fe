"""Draw a piece of a timeline as an SVG picture, for the documentation.

    python scripts/make_timeline_picture.py train_dir/make_run/profile/timeline.json docs/images/timeline.svg \
        --start_ms=1000 --length_ms=60

Every component is a row, blocks inside blocks are drawn below them, waits are grey, flows are thin lines.
"""

from __future__ import annotations

import argparse
import json
import zlib
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

WIDTH, LEFT, ROW, GAP = 1180, 190, 17, 10
MAX_DEPTH = 4
WAIT, TEXT, FLOW = "#d8d8d8", "#222222", "#c0392b"
COLORS = ("#8ecae6", "#95d5b2", "#ffd166", "#f4a261", "#cdb4db", "#a3b18a", "#e5989b", "#90b4ce")


def read_rows(events: list[dict[str, Any]]) -> dict[int, str]:
    """Return the names of processes by number, in the order in which viewers show them."""
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    order = {event["pid"]: event["args"]["sort_index"] for event in events if event["name"] == "process_sort_index"}
    return {pid: names[pid] for pid in sorted(names, key=lambda pid: order[pid])}


def draw(document: dict[str, Any], start_us: float, length_us: float) -> str:
    """Return the picture of a window of a timeline."""
    events = document["traceEvents"]
    end_us = start_us + length_us
    scale = (WIDTH - LEFT) / length_us
    shapes: list[str] = []
    tops: dict[int, float] = {}
    top = 30.0
    for pid, name in read_rows(events).items():
        passes = [event for event in events if event["ph"] == "X" and event["pid"] == pid]
        passes = [event for event in passes if event["ts"] < end_us and event["ts"] + event["dur"] > start_us]
        tops[pid] = top
        shapes.append(f'<text x="6" y="{top + 12:.1f}" class="name">{escape(name)}</text>')
        deepest = 1
        for event in sorted(passes, key=lambda event: (event["ts"], -event["dur"])):
            depth = event["args"]["path"].count("/") + 1
            if depth > MAX_DEPTH:
                continue
            deepest = max(deepest, depth)
            left = LEFT + (max(event["ts"], start_us) - start_us) * scale
            width = (min(event["ts"] + event["dur"], end_us) - max(event["ts"], start_us)) * scale
            shapes.append(draw_pass(event["name"], left, top + (depth - 1) * ROW, width))
        top += deepest * ROW + GAP
    shapes += draw_flows(events, tops, start_us, end_us, scale)
    return frame(shapes, top, length_us)


def draw_pass(name: str, left: float, top: float, width: float) -> str:
    """Return a rectangle, with its name where there is room for it."""
    color = WAIT if name.startswith("wait_") else COLORS[zlib.crc32(name.encode()) % len(COLORS)]
    shape = f'<rect x="{left:.2f}" y="{top:.1f}" width="{max(width, 0.3):.2f}" height="{ROW - 2}" fill="{color}"/>'
    if width > 6.5 * len(name):
        shape += f'<text x="{left + 3:.1f}" y="{top + 11:.1f}">{escape(name)}</text>'
    return shape


def draw_flows(
    events: list[dict[str, Any]], tops: dict[int, float], start_us: float, end_us: float, scale: float
) -> list[str]:
    """Return the lines of flows that lie in the window as a whole."""
    chains: dict[int, list[dict[str, Any]]] = {}
    for event in events:
        if event["ph"] in "stf":
            chains.setdefault(event["id"], []).append(event)
    lines = []
    for chain in chains.values():
        if all(start_us <= event["ts"] <= end_us for event in chain):
            points = [f"{LEFT + (e['ts'] - start_us) * scale:.1f},{tops[e['pid']] + ROW / 2:.1f}" for e in chain]
            lines.append(f'<polyline points="{" ".join(points)}" class="flow"/>')
    return lines


def frame(shapes: list[str], height: float, length_us: float) -> str:
    """Return the whole document, with a scale above."""
    marks = []
    for tenth in range(11):
        x = LEFT + (WIDTH - LEFT) * tenth / 10
        marks.append(f'<text x="{x:.0f}" y="14" text-anchor="middle">{length_us * tenth / 10_000:.0f} ms</text>')
        marks.append(f'<line x1="{x:.0f}" y1="18" x2="{x:.0f}" y2="{height:.0f}" stroke="#eeeeee"/>')
    style = (
        f"text {{ font: 10px sans-serif; fill: {TEXT}; }} .name {{ font-weight: bold; }} "
        f".flow {{ fill: none; stroke: {FLOW}; stroke-width: 0.7; opacity: 0.6; }}"
    )
    size = f'width="{WIDTH + 30}" height="{height:.0f}" viewBox="0 0 {WIDTH + 30} {height:.0f}"'
    body = "\n".join([*marks, *shapes])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{style}</style>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def main() -> None:
    """Read a timeline and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timeline", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--start_ms", type=float, default=0.0, help="where the window begins; default: 0")
    parser.add_argument("--length_ms", type=float, default=60.0, help="how long it is; default: 60")
    arguments = parser.parse_args()
    document = json.loads(arguments.timeline.read_text(encoding="utf-8"))
    picture = draw(document, arguments.start_ms * 1000, arguments.length_ms * 1000)
    arguments.picture.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
