"""Figures of a part of a run, from its readings: throughput, who used the processors, and what each component did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sample_profiler.analysis.trends.change_points import Values
from sample_profiler.analysis.trends.changes import Series, Span
from sample_profiler.analysis.trends.readings import MACHINE, Column, Readings
from sample_profiler.component_id import LEARNER, RUNNER, ComponentId, rollout_worker_index
from sample_profiler.vocabulary import (
    CHILDREN_CPU_S,
    ENV_STEP,
    FRAMES,
    MACHINE_BUSY_S,
    QUOTA_PERIODS,
    QUOTA_PERIODS_HELD_UP,
    TRAIN,
    WAIT,
)

__all__ = ["PartFigures", "begin_of_training", "figures_of", "throughput"]

_NO_BLOCK = ""  # in the place of a path

_DATASETS_OF_START = 3.0  # of each Learner: what was sampled before the first of them had the processors for itself
_DATASETS_OF_WINDOW = 4.0  # frames come a dataset at a time
_DATASETS_OF_STEPS = 2.0  # and workers may wait for each dataset
_FEWEST_WINDOWS, _MOST_WINDOWS = 12, 120
_LEAST = 1e-3  # of the median: a window without frames has a logarithm, too


@dataclass(frozen=True)
class PartFigures:
    """What a run did in a part of its time.

    Attributes:
        fps: frames per second.
        others: cores that other programs used; None: not known.
        busy: cores that anybody used; None: not known.
        cpu: cores that the run used, with what it has started.
        waiting: threads of the run that were ready and had no processor, on average.
        held_up: share of the periods of a quota in which the run stood still.
        work: by component: share of the time in which it did not wait.
        own: by component and path: share of the time in a block, without the blocks and waits in it.
        passes: by component and path: passes through a block per second.
        computing: by process: cores that it used.
    """

    fps: float
    others: float | None
    busy: float | None
    cpu: float
    waiting: float
    held_up: float
    work: Mapping[str, float]
    own: Mapping[str, Mapping[str, float]]
    passes: Mapping[str, Mapping[str, float]]
    computing: Mapping[str, float] = field(default_factory=dict)


def begin_of_training(readings: Readings) -> float | None:
    """Return when a run had trained on its first few datasets, in seconds since it began; None: it never had."""
    learners = [blocks[TRAIN].passes for name, blocks in readings.blocks.items() if _is_learner(name, blocks)]
    if not learners:
        return None
    datasets = np.nansum(learners, axis=0)
    begun = datasets >= _DATASETS_OF_START * len(learners)
    return float(readings.times_s[int(begun.argmax())]) if begun.any() else None


def throughput(readings: Readings) -> Series | None:
    """Return frames trained on per second over the time of a run; None: there is too little of it.

    Frames are counted a dataset at a time. Steps of workers come as evenly as they can, and are as many in the long
    run, so where they are known it is they that tell how the frames are spread over the time.
    """
    frames, begin_s = readings.gauge(MACHINE, FRAMES), begin_of_training(readings)
    if frames is None or begin_s is None:
        return None
    end_s = float(readings.times_s[-1])
    learners = [blocks[TRAIN].passes for name, blocks in readings.blocks.items() if _is_learner(name, blocks)]
    datasets = sum(readings.rise(column, begin_s, end_s) for column in learners)
    spacing_s = float(np.median(np.diff(readings.times_s)))
    if not datasets > 0 or not end_s > begin_s:
        return None
    steps = _sampled(readings, begin_s, end_s)
    datasets_of_window = _DATASETS_OF_WINDOW if steps is None else _DATASETS_OF_STEPS
    window_s = max(spacing_s, datasets_of_window * len(learners) * (end_s - begin_s) / datasets)
    num_windows = min(_MOST_WINDOWS, int((end_s - begin_s) / window_s))
    if num_windows < _FEWEST_WINDOWS:
        return None
    edges_s = np.linspace(begin_s, end_s, num_windows + 1)
    if steps is None:
        rates = np.diff(_at(readings, frames, edges_s)) / np.diff(edges_s)
    else:
        rates = np.diff(_at(readings, steps, edges_s)) / np.diff(edges_s)
        rates *= readings.rate(frames, begin_s, end_s) / readings.rate(steps, begin_s, end_s)
    middle = float(np.median(rates))
    return Series(edges_s, np.maximum(rates, _LEAST * middle)) if middle > 0 else None


def _sampled(readings: Readings, begin_s: float, end_s: float) -> Column | None:
    """Return the steps that groups of all workers had taken; None: it is not known of all the time."""
    workers = [
        blocks[ENV_STEP].passes
        for name, blocks in readings.blocks.items()
        if rollout_worker_index(name) is not None and ENV_STEP in blocks
    ]
    if not workers or not all(readings.rise(passes, begin_s, end_s) > 0 for passes in workers):
        return None
    steps: Column = np.sum(workers, axis=0)
    return steps


def _at(readings: Readings, column: Column, times_s: Values) -> Values:
    known = np.isfinite(column)
    return np.interp(times_s, readings.times_s[known], column[known])


def figures_of(readings: Readings, fps: Series, span: Span) -> PartFigures:
    """Return what a run did in a part of its time.

    Args:
        readings: of the run.
        fps: its throughput. Frames that are trained on within a part may be others: they come a dataset at a time.
        span: the part.
    """
    begin_s, end_s = span.begin_s, span.end_s

    def rate(owner: str, name: str) -> float | None:
        column = readings.gauge(owner, name)
        value = math.nan if column is None else readings.rate(column, begin_s, end_s)
        return value if math.isfinite(value) else None

    cpu = sum(rate(owner, name) or 0.0 for owner in readings.gauges for name in ("cpu_s", CHILDREN_CPU_S))
    busy = rate(RUNNER, MACHINE_BUSY_S)
    periods, held_up = rate(RUNNER, QUOTA_PERIODS) or 0.0, rate(RUNNER, QUOTA_PERIODS_HELD_UP) or 0.0
    shares = {name: _shares(readings, name, begin_s, end_s) for name in readings.blocks}
    return PartFigures(
        fps=fps.mean(span),
        others=None if busy is None else max(0.0, busy - cpu),
        busy=busy,
        cpu=cpu,
        waiting=sum(rate(owner, "run_delay_s") or 0.0 for owner in readings.gauges),
        held_up=held_up / periods if periods > 0 else 0.0,
        work={name: 1 - _waits(each) for name, each in shares.items()},
        own={name: _own(each) for name, each in shares.items()},
        passes={
            name: {path: _finite(readings.rate(block.passes, begin_s, end_s)) for path, block in blocks.items()}
            for name, blocks in readings.blocks.items()
        },
        computing={owner: cores for owner in readings.gauges if (cores := rate(owner, "cpu_s")) is not None},
    )


def _is_learner(name: str, blocks: Mapping[str, object]) -> bool:
    return ComponentId.parse(name).kind == LEARNER and TRAIN in blocks


def _shares(readings: Readings, component: str, begin_s: float, end_s: float) -> dict[str, float]:
    blocks = readings.blocks[component]
    return {path: _finite(readings.rate(block.seconds, begin_s, end_s)) for path, block in blocks.items()}


def _waits(shares: Mapping[str, float]) -> float:
    """Return the share of the outermost waits."""
    return sum(share for path, share in shares.items() if _is_outermost_wait(path))


def _is_outermost_wait(path: str) -> bool:
    *outer, own = path.split("/")
    return own.startswith(WAIT) and not any(key.startswith(WAIT) for key in outer)


def _own(shares: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each block that is no wait and in none, without those in it; and of what is in no block."""
    own = {path: share for path, share in shares.items() if not any(key.startswith(WAIT) for key in path.split("/"))}
    found = dict(own)
    for path, share in shares.items():
        outer = path.rpartition("/")[0]
        if outer in found:
            found[outer] = max(0.0, found[outer] - share)
    top = sum(share for path, share in shares.items() if "/" not in path)
    return {**found, _NO_BLOCK: max(0.0, 1 - top)}


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
