"""Figures over the time of a run, as its Runner has noted them."""

from __future__ import annotations

import math
import re

from sample_profiler.profiling.session.checks import MAX_SECONDS
from sample_profiler.profiling.session.session import Session
from sample_profiler.vocabulary import (
    BATCH_ROWS,
    FINISHED_TRAJECTORIES,
    FPS,
    FREE_SLOTS,
    POLICY_LAG,
    TRAJECTORIES_AT_LEARNER,
    WAITING_GROUPS,
)

__all__ = [
    *("EPISODE_LENGTH", "EPISODE_RETURN", "describe_figure", "name_deviation", "name_figure", "read_history"),
]

EPISODE_RETURN = "episode_return"
EPISODE_LENGTH = "episode_length"
_DEVIATION = "_deviation"
_MEANINGS = {
    FPS: "frames/s",
    EPISODE_RETURN: "episode return",
    EPISODE_LENGTH: "episode length, frames",
    POLICY_LAG: "policy lag, training steps",
    BATCH_ROWS: "steps in a batch of inference",
    FINISHED_TRAJECTORIES: "trajectories finished, on their way to a dataset",
    TRAJECTORIES_AT_LEARNER: "trajectories at the Learner",
    FREE_SLOTS: "free trajectory slots",
    WAITING_GROUPS: "groups that wait for a slot",
    "memory_mib": "memory of all processes, MiB",
}


_OF_POLICY = re.compile(rf"(\w+?)_policy_([0-9]+)({_DEVIATION})?", re.ASCII)


def name_figure(figure: str, policy: int) -> str:
    """Return the name that a figure of one policy has in a history."""
    return f"{figure}_policy_{policy}"


def name_deviation(name: str) -> str:
    """Return the name that the standard deviation of what a figure is the mean of has in a history."""
    return name + _DEVIATION


def describe_figure(name: str) -> str:
    """Return what a figure is, in words; of one that is not known its name."""
    if (found := _OF_POLICY.fullmatch(name)) and found[1] in _MEANINGS:
        words = f"{_MEANINGS[found[1]]}, policy {found[2]}"
        return f"{words}: standard deviation" if found[3] else words
    return _MEANINGS.get(name, name)


def read_history(session: Session) -> dict[str, list[tuple[float, float]]]:
    """Return pairs of seconds since the run began and value, by figure; throughput and episodes first.

    What a session of somebody else's has in their place is left out.
    """
    history = session.run.get("history")
    if not isinstance(history, dict):
        return {}
    found = {str(name): _points(points) for name, points in history.items() if isinstance(points, list | tuple)}
    return {name: found[name] for name in sorted(found, key=_place) if found[name]}


def _place(name: str) -> int:
    return 0 if name == FPS else 1 if _OF_POLICY.fullmatch(name) else 2


def _points(points: object) -> list[tuple[float, float]]:
    assert isinstance(points, list | tuple)
    try:
        pairs = [(float(time_s), float(value)) for time_s, value in points]
    except (OverflowError, TypeError, ValueError):
        return []
    return [(time_s, value) for time_s, value in pairs if abs(time_s) < MAX_SECONDS and math.isfinite(value)]
