"""Which processes of a run take more and more memory, steadily, and when there will be none left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from sample_profiler.analysis.trends.figures import begin_of_training
from sample_profiler.analysis.trends.readings import Column, Readings
from sample_profiler.analysis.trends.trend import Trend
from sample_profiler.component_id import RUNNER, ComponentId, rollout_worker_index
from sample_profiler.vocabulary import AVAILABLE_MEMORY_MIB, ENV_STEP

__all__ = ["Leak", "find_leaks", "memory_trends"]

_MEMORY = "private_memory_mib"
_NUM_PARTS = 5
_STEADY = 0.5  # of its mean rise: by what it rises in each part at least
_LEAST_MIB, _LEAST_SHARE = 3.0, 0.02  # of what it had: allocators round up, and caches fill
_LEAST_OF_RUNNER_MIB = 24.0  # its books, of which these readings are a part, grow until they have their size
_FEWEST, _SHORTEST_S = 15, 20.0
_START_SHARE = 0.2  # of the time after the first datasets: pools and caches have filled by then
_SOON_S = 30 * 24 * 3600.0  # later than that is not worth telling
_KIB_PER_MIB = 1024
_ADVICE = "look for what is kept with each step or episode: lists, caches, figures; tracemalloc tells of objects"


@dataclass(frozen=True)
class Leak:
    """A process whose memory grows steadily.

    Attributes:
        process: its name.
        mib_per_s: by how much each second.
        begin_s, end_s: of the time that was looked at, in seconds since the run began.
        begin_mib, end_mib: what it had of its own then.
    """

    process: str
    mib_per_s: float
    begin_s: float
    end_s: float
    begin_mib: float
    end_mib: float


def find_leaks(readings: Readings) -> list[Leak]:
    """Return the processes whose private memory grows in each part of the run, alike, the quickest first."""
    begin_s = begin_of_training(readings)
    if begin_s is None:
        return []
    begin_s += _START_SHARE * (float(readings.times_s[-1]) - begin_s)
    leaks = [
        leak
        for process, gauges in readings.gauges.items()
        if _MEMORY in gauges and (leak := _leak(process, readings.times_s, gauges[_MEMORY], begin_s)) is not None
    ]
    return sorted(leaks, key=lambda leak: -leak.mib_per_s)


def _leak(process: str, times_s: Column, memory_mib: Column, begin_s: float) -> Leak | None:
    known = np.isfinite(memory_mib) & (times_s >= begin_s)
    times_s, memory_mib = times_s[known], memory_mib[known]
    if len(times_s) < _FEWEST or times_s[-1] - times_s[0] < _SHORTEST_S:
        return None
    parts = [float(np.median(part)) for part in np.array_split(memory_mib, _NUM_PARTS)]
    rises = np.diff(parts)
    least = max(_LEAST_OF_RUNNER_MIB if process == RUNNER else _LEAST_MIB, _LEAST_SHARE * parts[0])
    if rises.min() < _STEADY * rises.mean() or parts[-1] - parts[0] < least:
        return None
    middles_s = [float(np.median(part)) for part in np.array_split(times_s, _NUM_PARTS)]
    slope = (parts[-1] - parts[0]) / (middles_s[-1] - middles_s[0])
    ends = float(times_s[0]), float(times_s[-1]), float(memory_mib[0]), float(memory_mib[-1])
    return Leak(process, slope, *ends)


def memory_trends(readings: Readings, config: Mapping[str, Any]) -> list[Trend]:
    """Return what is to be said of leaks: one for each kind of process.

    Args:
        readings: of the run.
        config: values of its flags.
    """
    leaks = find_leaks(readings)
    left_s = _left_s(readings, leaks)
    if left_s is not None and left_s > _SOON_S:
        return []
    leaks.sort(key=lambda leak: (ComponentId.parse(leak.process).kind, -leak.mib_per_s))
    kinds = groupby(leaks, key=lambda leak: ComponentId.parse(leak.process).kind)
    trends = [_trend(readings, list(each), left_s, config) for _, each in kinds]
    return sorted(trends, key=lambda trend: -trend.ratio)


def _trend(readings: Readings, leaks: Sequence[Leak], left_s: float | None, config: Mapping[str, Any]) -> Trend:
    first = leaks[0]
    kind = ComponentId.parse(first.process).kind
    of_kind = [name for name in readings.gauges if ComponentId.parse(name).kind == kind and name != kind]
    names = ", ".join(leak.process for leak in leaks[:3]) + (f" and {len(leaks) - 3} more" if len(leaks) > 3 else "")
    full = "" if left_s is None else f": memory will be full in {_words(left_s)}"
    slope = f"{60 * first.mib_per_s:.1f} MiB a minute"
    headline = f"The memory of {names} grows steadily, by {slope}{' each' if len(leaks) > 1 else ''}{full}"
    evidence = [
        f"{first.process} had {first.begin_mib:,.0f} MiB of its own at {first.begin_s:.0f} s and "
        f"{first.end_mib:,.0f} MiB at {first.end_s:.0f} s, and rises in each of {_NUM_PARTS} parts of that time"
    ]
    evidence += _of_environments(readings, first, config)
    if len(leaks) < len(of_kind):
        evidence.append(f"{len(of_kind) - len(leaks)} other processes of the kind do not grow")
    ratio = first.end_mib / first.begin_mib
    return Trend("memory leak", first.process, headline, tuple(evidence), _ADVICE, ratio, first.begin_s)


def _of_environments(readings: Readings, leak: Leak, config: Mapping[str, Any]) -> list[str]:
    """Say which environments a worker has, and how much each of their steps leaves behind."""
    worker, num_envs, num_splits = rollout_worker_index(leak.process), *map(config.get, _FLAGS)
    if worker is None or not isinstance(num_envs, int) or not 0 < num_envs < _MOST_ENVS:
        return []
    last = (worker + 1) * num_envs - 1
    envs = f"environment {last}" if num_envs == 1 else f"environments {worker * num_envs} to {last}"
    steps = readings.blocks.get(leak.process, {}).get(ENV_STEP)
    rate = 0.0 if steps is None else readings.rate(steps.passes, leak.begin_s, leak.end_s)
    if not rate > 0 or not isinstance(num_splits, int):
        return [f"it steps {envs}"]
    kib = _KIB_PER_MIB * leak.mib_per_s / (rate * num_envs / max(1, min(num_splits, num_envs)))
    return [f"it steps {envs}; each of their steps leaves {kib:.2g} KiB behind, if they all do"]


_FLAGS = ("num_envs_per_worker", "worker_num_splits")
_MOST_ENVS = 1 << 31


def _left_s(readings: Readings, leaks: Sequence[Leak]) -> float | None:
    """Return when the memory is full if all of them go on; None: that is not known."""
    available = readings.gauge(RUNNER, AVAILABLE_MEMORY_MIB)
    if available is None:
        return None
    known = available[np.isfinite(available)]
    slope = sum(leak.mib_per_s for leak in leaks)
    return float(known[-1]) / slope if len(known) and slope > 0 and math.isfinite(slope) else None


def _words(seconds: float) -> str:
    for unit_s, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds:.0f} seconds"
