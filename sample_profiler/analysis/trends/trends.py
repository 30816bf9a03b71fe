"""How a run changed over its time: its throughput and its memory, and what changed with them."""

from __future__ import annotations

import numpy as np

from sample_profiler.analysis.trends.changes import Change, Series, find_changes
from sample_profiler.analysis.trends.episodes import follows_episodes
from sample_profiler.analysis.trends.explanations import explain
from sample_profiler.analysis.trends.figures import figures_of, throughput
from sample_profiler.analysis.trends.memory import memory_trends
from sample_profiler.analysis.trends.readings import Readings, read_readings
from sample_profiler.analysis.trends.trend import Trend
from sample_profiler.analysis.trends.workers import slower_worker
from sample_profiler.component_id import RUNNER
from sample_profiler.profiling.session.session import Session
from sample_profiler.vocabulary import STOOD_STILL_S

__all__ = ["find_trends"]

_MOST_CHANGES = 3  # of throughput: the largest ones are told
_STANDSTILL = 0.5  # of the time
_CURES: dict[str, str] = {
    "throttling": "a larger quota for the container",
    "another program": "find it with `top`, and give one of the two a machine of its own",
    "environments": "look for what an environment keeps, computes or waits for more with each step or episode",
    "slow worker": "look at its environments alone: what they keep, what they wait for, which core they are on",
    "learner": "look for what grows with each training step, such as a list that is gone through",
    "inference": "look for what grows with each call of the network",
    "episodes": "that is what the policy does now: judge settings by how the run is late, not early",
}


def find_trends(session: Session) -> list[Trend]:
    """Return what changed over the time of a run: in throughput, workers and memory; nothing: nothing did.

    A session without readings, or of a run that was short, has none.
    """
    readings = read_readings(session)
    if readings is None:
        return []
    series = throughput(readings)
    trends = [] if series is None else _throughput_trends(session, readings, series)
    slower = slower_worker(readings)
    if slower is not None and all(trend.cause != "slow worker" for trend in trends):
        trends.append(slower)
    return trends + memory_trends(readings, session.config)


def _throughput_trends(session: Session, readings: Readings, series: Series) -> list[Trend]:
    changes = [change for change in find_changes(series) if not _is_standstill(readings, change)]
    largest = sorted(changes, key=lambda change: -abs(np.log(change.ratio)))[:_MOST_CHANGES]
    return [_trend(session, readings, series, change) for change in sorted(largest, key=lambda change: change.begin_s)]


def _trend(session: Session, readings: Readings, series: Series, change: Change) -> Trend:
    before, after = (figures_of(readings, series, span) for span in (change.before, change.after))
    num_cores = session.machine.get("num_cpus") or 1
    found = explain(before, after, num_cores)
    evidence = list(found.evidence)
    cause = found.cause
    if found.cause == "environments" and (episodes := follows_episodes(session, readings, change)):
        cause = "episodes"
        evidence.append(episodes)
    if (still_s := _stood_still(readings, change.before.begin_s, change.after.end_s)) >= 1:
        evidence.append(f"for {still_s:.0f} s in between the run stood still, as when suspended")
    component = found.components[0] if found.components else ""
    headline = f"{_describe(change)}: {found.headline}"
    return Trend(cause, component, headline, tuple(evidence), _CURES.get(cause, ""), change.ratio, change.begin_s)


def _describe(change: Change) -> str:
    verb = "fell" if change.ratio < 1 else "rose"
    levels = (
        f"from {change.before.level:,.0f} to {change.after.level:,.0f} frames/s ({100 * (change.ratio - 1):+.0f} %)"
    )
    if change.is_gradual:
        when = f"little by little between {change.begin_s:.0f} s and {change.end_s:.0f} s"
    else:
        when = f"at {change.begin_s:.0f} s"
        if change.latest_s > change.earliest_s:
            when += f" ({change.earliest_s:.0f} to {change.latest_s:.0f} s)"
    return f"Throughput {verb} {levels} {when}"


def _is_standstill(readings: Readings, change: Change) -> bool:
    """Tell whether the slower side of a change is mostly a time in which the run stood still."""
    slow = change.after if change.ratio < 1 else change.before
    return _stood_still(readings, slow.begin_s, slow.end_s) >= _STANDSTILL * (slow.end_s - slow.begin_s)


def _stood_still(readings: Readings, begin_s: float, end_s: float) -> float:
    column = readings.gauge(RUNNER, STOOD_STILL_S)
    rise = 0.0 if column is None else readings.rise(column, begin_s, end_s)
    return rise if rise > 0 else 0.0
