"""Whether one worker's steps have become slower than those of the others: that costs a run of many hardly anything.

What is compared is the ratio to the median of the others, which other programs and the policy change alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sample_profiler.analysis.trends.change_points import Values
from sample_profiler.analysis.trends.changes import Change, Series, find_changes
from sample_profiler.analysis.trends.figures import begin_of_training
from sample_profiler.analysis.trends.readings import BlockReadings, Readings
from sample_profiler.analysis.trends.trend import Trend
from sample_profiler.component_id import rollout_worker_index
from sample_profiler.vocabulary import ENV_STEP

__all__ = ["slower_worker"]

_FEWEST_WORKERS = 3  # of two, neither is the rule
_FEWEST_WINDOWS, _MOST_WINDOWS = 12, 60
_FEWEST_STEPS = 8  # of each worker in a window
_SLOWER = 1.5  # times as slow beside the others as before


def slower_worker(readings: Readings) -> Trend | None:
    """Return what is to be said of the worker that has become slower than the others; None: none has."""
    steps = {
        name: blocks[ENV_STEP]
        for name, blocks in readings.blocks.items()
        if rollout_worker_index(name) is not None and ENV_STEP in blocks
    }
    begin_s = begin_of_training(readings)
    if len(steps) < _FEWEST_WORKERS or begin_s is None:
        return None
    edges_s = _edges(readings, list(steps.values()), begin_s)
    costs = {name: _costs(readings, each, edges_s) for name, each in steps.items()} if edges_s is not None else {}
    known = {name: each for name, each in costs.items() if each is not None}
    if edges_s is None or len(known) < _FEWEST_WORKERS:
        return None
    beside = {
        name: each / np.median([other for key, other in known.items() if key != name], axis=0)
        for name, each in known.items()
    }
    half = (len(edges_s) - 1) // 2
    name = max(beside, key=lambda each: float(np.median(beside[each][half:]) / np.median(beside[each][:half])))
    changes = find_changes(Series(edges_s, beside[name]), more_is_better=False)
    change = max(changes, key=lambda each: each.ratio, default=None)
    return None if change is None or change.ratio < _SLOWER else _trend(name, len(known) - 1, change)


def _edges(readings: Readings, steps: Sequence[BlockReadings], begin_s: float) -> Values | None:
    """Return the edges of windows in which each worker takes some steps; None: there are too few."""
    end_s = float(readings.times_s[-1])
    fewest = min(readings.rise(each.passes, begin_s, end_s) for each in steps)
    if not math.isfinite(fewest):  # one was replaced, or came late
        return None
    spacing_s = float(np.median(np.diff(readings.times_s)))
    num_windows = int(min(_MOST_WINDOWS, (end_s - begin_s) / spacing_s, fewest / _FEWEST_STEPS))
    return np.linspace(begin_s, end_s, num_windows + 1) if num_windows >= _FEWEST_WINDOWS else None


def _costs(readings: Readings, steps: BlockReadings, edges_s: Values) -> Values | None:
    """Return the seconds of a step of a worker's groups over time; None: they are not known everywhere."""
    known = np.isfinite(steps.seconds)
    seconds, passes = (
        np.diff(np.interp(edges_s, readings.times_s[known], column[known])) for column in (steps.seconds, steps.passes)
    )
    if not (seconds > 0).all() or not (passes > 0).all():
        return None
    costs: Values = seconds / passes
    return costs


def _trend(name: str, num_others: int, change: Change) -> Trend:
    when = (
        f"little by little between {change.begin_s:.0f} s and {change.end_s:.0f} s"
        if change.is_gradual
        else f"at {change.begin_s:.0f} s"
    )
    headline = f"{name} became {change.ratio:.1f} times as slow beside the other workers {when}"
    evidence = (
        f"a step of a group of its environments took {change.before.level:.2f} times what it took the {num_others} "
        f"others in the median, and takes {change.after.level:.2f} times that",
    )
    advice = "look at its environments alone: what they keep, what they wait for, which core they are on"
    return Trend("slow worker", name, headline, evidence, advice, change.ratio, change.begin_s)
