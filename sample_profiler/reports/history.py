"""Figures over the time of a run, as its Runner has noted them."""

from __future__ import annotations

import math

from sample_profiler.profiling.session import Session
from sample_profiler.profiling.session_checks import MAX_SECONDS

__all__ = ["describe_figure", "read_history"]

_MEANINGS = {
    "fps": "frames/s",
    "policy_lag": "policy lag, training steps",
    "batch_rows": "steps in a batch of inference",
    "finished_trajectories": "trajectories finished, on their way to a dataset",
    "trajectories_at_learner": "trajectories at the Learner",
    "free_slots": "free trajectory slots",
    "waiting_groups": "groups that wait for a slot",
    "memory_mib": "memory of all processes, MiB",
}


def describe_figure(name: str) -> str:
    """Return what a figure is, in words; of one that is not known its name."""
    return _MEANINGS.get(name, name)


def read_history(session: Session) -> dict[str, list[tuple[float, float]]]:
    """Return pairs of seconds since the run began and value, by figure.

    What a session of somebody else's has in their place is left out.
    """
    history = session.run.get("history")
    if not isinstance(history, dict):
        return {}
    found = {str(name): _points(points) for name, points in history.items() if isinstance(points, list | tuple)}
    return {name: points for name, points in found.items() if points}


def _points(points: object) -> list[tuple[float, float]]:
    assert isinstance(points, list | tuple)
    try:
        pairs = [(float(time_s), float(value)) for time_s, value in points]
    except (OverflowError, TypeError, ValueError):
        return []
    return [(time_s, value) for time_s, value in pairs if abs(time_s) < MAX_SECONDS and math.isfinite(value)]
