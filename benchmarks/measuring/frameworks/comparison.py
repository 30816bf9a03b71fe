"""Runs of several frameworks that take turns: what each comes to, their order, and the file they are kept in."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = [
    *("Points", "Run", "Turn", "append", "check_is_same", "first_step_s", "make_run", "order_of_arms", "read_runs"),
    *("steady_rate", "thin", "turns", "whole_rate"),
]

Points = Sequence[Sequence[float]]
"""`[seconds since the process was started, frames trained on]`, one for each training step that was seen."""

_WARM_UP_SHARE = 0.25
_MOST_POINTS = 200


@dataclass(frozen=True)
class Run:
    """One run of one arm.

    Attributes:
        task: its name.
        arm: its name.
        round: from 0.
        position: in the round, from 0.
        flags: that the framework was started with, but for those that say where and how long.
        seconds: of training that were asked for.
        machine: processor and number of cores.
        whole: frames per second from the start of the process to the last training step.
        steady: from the first training step with at least 25 % of the frames to the last.
        first_step_s: from the start of the process to the end of the first training step.
        memory_mib: proportional share of all processes together, near the end.
        load: average number of running processes before the run, over a minute.
        points: the curve, thinned.
    """

    task: str
    arm: str
    round: int
    position: int
    flags: Sequence[str]
    seconds: float
    machine: str
    whole: float
    steady: float
    first_step_s: float
    memory_mib: float
    load: float
    points: Points


@dataclass(frozen=True)
class Turn:
    """A run that is to be made.

    Attributes:
        arm: whose.
        round: from 0.
        position: in the round, from 0.
    """

    arm: str
    round: int
    position: int


def whole_rate(points: Points) -> float:
    """Return frames per second from the start of the process to the last training step."""
    return points[-1][1] / points[-1][0]


def first_step_s(points: Points) -> float:
    """Return the seconds from the start of the process to the end of the first training step."""
    return points[0][0]


def steady_rate(points: Points) -> float:
    """Return frames per second over the last 75 % of the frames.

    Raises:
        ValueError: there are not two training steps in that part.
    """
    steady = [point for point in points if point[1] >= _WARM_UP_SHARE * points[-1][1]] if points else []
    if len(steady) < 2:
        raise ValueError("there are less than two training steps in the last 75 % of the frames: run for longer")
    return (steady[-1][1] - steady[0][1]) / (steady[-1][0] - steady[0][0])


def thin(points: Points) -> list[list[float]]:
    """Return at most 200 of the points, the first and the last among them."""
    every = max(1, -(-(len(points) - 1) // (_MOST_POINTS - 1)))
    return [list(point) for point in [*points[:-1:every], points[-1]]]


def make_run(turn: Turn, points: Points, memory_mib: float, load: float, **about: Any) -> Run:
    """Return what a run with these points comes to.

    Args:
        turn: whose it is.
        points: of the run.
        memory_mib: of all processes.
        load: before it.
        **about: its task, flags, seconds and machine.

    Raises:
        ValueError: it has too few training steps to say anything.
    """
    return Run(
        **asdict(turn),
        **about,
        steady=steady_rate(points),
        whole=whole_rate(points),
        first_step_s=first_step_s(points),
        memory_mib=round(memory_mib, 1),
        load=load,
        points=thin(points),
    )


def order_of_arms(arms: Sequence[str], number: int) -> list[str]:
    """Return who runs when in a round: every other round backwards, so that a steady drift favours nobody."""
    return list(arms if number % 2 == 0 else reversed(arms))


def turns(arms: Sequence[str], num_rounds: int, done: Collection[Run]) -> Iterator[Turn]:
    """Yield the runs that are not there yet, in the order in which they are to be made."""
    have = {(run.arm, run.round) for run in done}
    for number in range(num_rounds):
        for position, arm in enumerate(order_of_arms(arms, number)):
            if (arm, number) not in have:
                yield Turn(arm, number, position)


def check_is_same(done: Collection[Run], arm: str, flags: Sequence[str], seconds: float, machine: str) -> None:
    """Find out whether runs that are there can stand beside new ones.

    Raises:
        ValueError: they were made with other flags, for another time or on another machine.
    """
    for run in done:
        if run.arm == arm and (list(run.flags), run.seconds, run.machine) != (list(flags), seconds, machine):
            raise ValueError(
                f"the runs of {arm} that are there took {run.seconds:g} s each on {run.machine} with "
                f"{' '.join(run.flags)}; now it is {seconds:g} s on {machine} with {' '.join(flags)}: begin anew in "
                "another --output"
            )


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
