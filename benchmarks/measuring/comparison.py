"""What can be said of runs of several frameworks that took turns."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.measuring.paired import Interval, bootstrap

__all__ = ["Run", "append", "compare", "order_of_arms", "read_runs", "steady_rate", "whole_rate"]

Points = Sequence[Sequence[float]]
"""`[seconds since the process was started, frames trained on]`, one for each training step that was seen."""

_WARM_UP_SHARE = 0.25
_MOST_POINTS = 200


@dataclass(frozen=True)
class Run:
    """One run of one arm.

    Attributes:
        arm: its name.
        round: from 0.
        whole: frames per second from the start of the process to the last training step.
        steady: from the first training step with at least 25 % of the frames to the last.
        first_step_s: from the start of the process to the first training step.
        memory_mib: proportional share of all processes together, in the middle of the run.
        load: average number of running processes before the run, over a minute.
        points: the curve, thinned.
    """

    arm: str
    round: int
    whole: float
    steady: float
    first_step_s: float
    memory_mib: float
    load: float
    points: Points


def whole_rate(points: Points) -> float:
    """Return frames per second from the start of the process to the last training step."""
    return points[-1][1] / points[-1][0]


def steady_rate(points: Points) -> float:
    """Return frames per second over the last 75 % of the frames.

    Raises:
        ValueError: there are not two training steps in that part.
    """
    steady = [point for point in points if point[1] >= _WARM_UP_SHARE * points[-1][1]]
    if len(steady) < 2:
        raise ValueError("there are less than two training steps in the last 75 % of the frames: run for longer")
    return (steady[-1][1] - steady[0][1]) / (steady[-1][0] - steady[0][0])


def make_run(arm: str, number: int, points: Points, memory_mib: float, load: float) -> Run:
    """Return what a run with these points comes to."""
    every = -(-len(points) // _MOST_POINTS)
    thinned = [*points[:-1:every], points[-1]]
    first_step_s = points[0][0]
    return Run(arm, number, whole_rate(points), steady_rate(points), first_step_s, memory_mib, load, thinned)


def order_of_arms(arms: Sequence[str], number: int) -> list[str]:
    """Return who runs when in a round: every other round backwards, so that a steady drift favours nobody."""
    return list(arms if number % 2 == 0 else reversed(arms))


def read_runs(path: Path) -> list[Run]:
    """Return the runs that a file of JSON lines has; none if there is no file."""
    if not path.exists():
        return []
    return [Run(**json.loads(line)) for line in path.read_text().splitlines()]


def append(path: Path, run: Run) -> None:
    """Add a run to a file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(asdict(run)) + "\n")


def compare(runs: Sequence[Run], arm: str, base: str, figure: str) -> Interval | None:
    """Return the ratio of a figure of one arm to that of another, from the rounds that both have.

    Args:
        runs: of all arms.
        arm: whose figure is divided.
        base: by whose.
        figure: "steady", "whole", "first_step_s" or "memory_mib".
    """
    values = {name: {run.round: getattr(run, figure) for run in runs if run.arm == name} for name in (arm, base)}
    common = sorted(values[arm].keys() & values[base].keys())
    if len(common) < 2:
        return None
    return bootstrap([math.log(values[arm][i] / values[base][i]) for i in common]).map(math.exp)


def summarize(runs: Sequence[Run], arms: Sequence[str], limits: Mapping[str, float]) -> str:
    """Return a table in Markdown: medians with their spread, and ratios to the first arm with 95 % intervals.

    Args:
        runs: of all arms.
        arms: the rows, in order.
        limits: by arm: frames per second that the hardware allows for; as far as known.
    """
    lines = [
        "| | runs | steady, frames/s | ratio | whole run, frames/s | ratio | first step, s | memory, MiB | of limit |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for arm in arms:
        own = [run for run in runs if run.arm == arm]
        if not own:
            continue
        cells = [arm, str(len(own))]
        for figure in ("steady", "whole"):
            cells += [_spread([getattr(run, figure) for run in own]), _ratio(compare(runs, arm, arms[0], figure))]
        cells += [_spread([run.first_step_s for run in own]), _spread([run.memory_mib for run in own])]
        limit = limits.get(arm)
        cells.append("–" if limit is None else f"{statistics.median(run.steady for run in own) / limit:.0%}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    digits = 1 if max(values) < 100 else 0
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def _ratio(interval: Interval | None) -> str:
    return "–" if interval is None else f"{interval.estimate:.2f} ({interval.lower:.2f} to {interval.upper:.2f})"
