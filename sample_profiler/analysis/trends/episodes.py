"""Whether what environments cost follows the episodes that the policy plays: longer or better ones may cost more."""

from __future__ import annotations

import numpy as np

from sample_profiler.analysis.trends.change_points import Values
from sample_profiler.analysis.trends.changes import Change
from sample_profiler.analysis.trends.readings import Column, Readings
from sample_profiler.component_id import ROLLOUT_WORKER, ComponentId
from sample_profiler.profiling.session.session import Session
from sample_profiler.vocabulary import ENV_STEP

__all__ = ["follows_episodes"]

_MOST_WINDOWS = 60
_CHANGED = 1.3  # what episodes are like, for it to matter
_FOLLOWS = 0.5  # of the variance of the costs
_WORDS = {"episode_return": "return", "episode_length": "length"}


def follows_episodes(session: Session, readings: Readings, change: Change) -> str:
    """Say which figure of the episodes the cost of a step follows, better than the time does; empty: none.

    Args:
        session: of the run.
        readings: of it.
        change: of the throughput, that comes with a change of the cost of steps.
    """
    history = session.run.get("history")
    begin_s, end_s = change.before.begin_s, change.after.end_s
    spacing_s = float(np.median(np.diff(readings.times_s)))
    edges_s = np.linspace(begin_s, end_s, min(_MOST_WINDOWS, max(3, int((end_s - begin_s) / spacing_s))) + 1)
    costs = _costs(readings, edges_s)
    if not isinstance(history, dict) or costs is None:
        return ""
    middles_s = (edges_s[:-1] + edges_s[1:]) / 2
    best, words = max(_FOLLOWS, _explained(costs, middles_s)), ""
    for name, points in history.items():
        figure, _, policy = str(name).rpartition("_policy_")
        if figure in _WORDS and policy.isdecimal() and (values := _at(points, middles_s)) is not None:
            first, last = _ends(values, middles_s, change)
            share = _explained(costs, values)
            if share > best and max(abs(first), abs(last)) > _CHANGED * min(abs(first), abs(last)):
                best = share
                words = (
                    f"the cost of a step follows the {_WORDS[figure]} of the policy's episodes, {last:,.4g} instead of "
                    f"{first:,.4g}, more closely than the time (R² {share:.2f})"
                )
    return words


def _costs(readings: Readings, edges_s: Values) -> Values | None:
    """Return the seconds of a step of a group of environments over time, of all workers."""
    steps = [
        blocks[ENV_STEP]
        for name, blocks in readings.blocks.items()
        if ComponentId.parse(name).kind == ROLLOUT_WORKER and ENV_STEP in blocks
    ]
    if not steps:
        return None
    seconds, passes = (
        sum(np.diff(_interpolated(readings.times_s, column, edges_s)) for column in columns)
        for columns in ([each.seconds for each in steps], [each.passes for each in steps])
    )
    costs: Values = np.asarray(seconds) / np.maximum(1.0, np.asarray(passes))
    return costs if np.isfinite(costs).all() else None


def _interpolated(times_s: Column, column: Column, at_s: Values) -> Values:
    known = np.isfinite(column)
    return np.interp(at_s, times_s[known], column[known]) if known.any() else np.full(len(at_s), np.nan)


def _at(points: object, times_s: Values) -> Values | None:
    try:
        found = np.array(points, dtype=np.float64)
    except (TypeError, ValueError):  # of somebody else's session
        return None
    if found.ndim != 2 or found.shape[1] != 2 or not np.isfinite(found).all():
        return None
    return np.interp(times_s, found[:, 0], found[:, 1])


def _ends(values: Values, times_s: Values, change: Change) -> tuple[float, float]:
    before, after = values[times_s <= change.before.end_s], values[times_s >= change.after.begin_s]
    return (float(np.median(before)), float(np.median(after))) if len(before) and len(after) else (0.0, 0.0)


def _explained(costs: Values, values: Values) -> float:
    """Return the share of the variance of costs that a straight line through other values explains."""
    if not costs.std() or not values.std():
        return 0.0
    return float(np.corrcoef(costs, values)[0, 1] ** 2)
