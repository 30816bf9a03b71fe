"""Two captures of call stacks as one page: a flame graph of both together, coloured by what has become more or less.

A frame is as wide as its share of both captures together, so that what only one of them has is seen, too. Captures of
time are compared by shares, whatever they took; captures of memory by bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from sample_profiler.files import written_whole
from sample_profiler.reports.merged.speedscope import WeighedStack, read_stacks
from sample_profiler.reports.run_report.page import titled_page

__all__ = ["write_flame_difference"]

_NARROWEST = 0.002
_LEAST_LABEL = 0.05
_LARGEST = 20
_LEAST_CHANGE = 0.01  # of the largest one
_ROW_PX = 20
_MIB = 2**20


@dataclass
class _Frame:
    """A frame below its callers.

    Attributes:
        name: of the function, with its file.
        weights: of both captures, with what it has called.
        own: the same, without.
        callees: by name.
    """

    name: str
    weights: list[float] = field(default_factory=lambda: [0.0, 0.0])
    own: list[float] = field(default_factory=lambda: [0.0, 0.0])
    callees: dict[str, _Frame] = field(default_factory=dict)


def write_flame_difference(a: Path, b: Path, output: Path) -> list[str]:
    """Write the page, and return, line by line, what differs most.

    Args:
        a: speedscope document of the one capture.
        b: of the other one.
        output: is written.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: one is no such document, there is nothing in it, or they are not of the same unit.
    """
    captures = [read_stacks(path) for path in (a, b)]
    units = {stack.unit for stacks in captures for stack in stacks}
    if len(units) > 1:
        raise ValueError(f"{a} and {b} are of different units ({', '.join(sorted(units))}): compare two of one tool")
    for path, stacks in zip((a, b), captures, strict=True):
        if not stacks:
            raise ValueError(f"there is nothing in {path}: capture for longer")
    is_bytes = units == {"bytes"}
    root = _Frame("all")
    for which, stacks in enumerate(captures):
        total = 1.0 if is_bytes else sum(stack.weight for stack in stacks)
        for stack in stacks:
            _add(root, stack, which, stack.weight / total)
    lines = [_describe(frame, is_bytes=is_bytes) for frame in _largest(root)]
    content = (
        f"<section><h2>Flame graph</h2>{_icicle(root, is_bytes=is_bytes)}<p class='dim note'>Red became more from A to "
        "B, blue less; as wide as in both together.</p></section><section><h2>Largest differences</h2><ul>"
        f"{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul></section>"
    )
    with written_whole(output) as partial:
        partial.write_text(titled_page("Difference of two captures", f"A {a} · B {b}", content), encoding="utf-8")
    return lines


def _add(root: _Frame, stack: WeighedStack, which: int, weight: float) -> None:
    frame = root
    frame.weights[which] += weight
    for name in stack.frames:
        frame = frame.callees.setdefault(name, _Frame(name))
        frame.weights[which] += weight
    frame.own[which] += weight


def _largest(root: _Frame) -> Sequence[_Frame]:
    """Return functions by how much their own share differs, wherever they are called from; the largest first."""
    merged: dict[str, _Frame] = {}
    for frame in _walk(root):
        total = merged.setdefault(frame.name, _Frame(frame.name))
        total.own = [total.own[which] + frame.own[which] for which in range(2)]
    most = max(abs(frame.own[1] - frame.own[0]) for frame in merged.values())
    changed = [frame for frame in merged.values() if abs(frame.own[1] - frame.own[0]) > _LEAST_CHANGE * most]
    return sorted(changed, key=lambda frame: -abs(frame.own[1] - frame.own[0]))[:_LARGEST]


def _walk(frame: _Frame) -> Iterator[_Frame]:
    stack = [frame]
    while stack:
        each = stack.pop()
        yield each
        stack.extend(each.callees.values())


def _describe(frame: _Frame, *, is_bytes: bool, of_all: bool = False) -> str:
    a, b = frame.weights if of_all else frame.own
    if is_bytes:
        return f"{(b - a) / _MIB:+,.2f} MiB  {frame.name} ({a / _MIB:,.2f} → {b / _MIB:,.2f} MiB)"
    return f"{100 * (b - a):+.1f} points  {frame.name} ({100 * a:.1f} % → {100 * b:.1f} %)"


def _icicle(root: _Frame, *, is_bytes: bool) -> str:
    total = sum(root.weights)
    most = max((abs(frame.weights[1] - frame.weights[0]) for frame in _walk(root) if frame is not root), default=0.0)
    boxes: list[str] = []
    depth = 0
    stack = [(root, 0, 0.0)]
    while stack:
        frame, level, start = stack.pop()
        share = sum(frame.weights) / total
        if share < _NARROWEST:
            continue
        depth = max(depth, level + 1)
        change = (frame.weights[1] - frame.weights[0]) / most if most and frame is not root else 0.0
        style = (
            f"left:{100 * start:.2f}%;width:{100 * share:.2f}%;top:{_ROW_PX * level}px;background:{_color(change)};"
            "color:#222"
        )
        title = escape(_describe(frame, is_bytes=is_bytes, of_all=True))
        label = escape(frame.name) if share >= _LEAST_LABEL else ""
        boxes.append(f'<div style="{style}" title="{title}">{label}</div>')
        for callee in frame.callees.values():
            stack.append((callee, level + 1, start))
            start += sum(callee.weights) / total
    return f'<div class=icicle style="height:{_ROW_PX * depth + 4}px">{"".join(boxes)}</div>'


def _color(change: float) -> str:
    """Return red for what became more, blue for less, and light grey for what stayed, for a change from -1 to 1."""
    lightness = 92 - 34 * min(1.0, abs(change))
    return f"hsl({4 if change > 0 else 214} {0 if change == 0 else 75}% {lightness:.0f}%)"
