"""What change points mean: from which level to which one a figure went, when, and whether little by little."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sample_profiler.analysis.trends.change_points import MAD, Values, find_change_points

__all__ = ["Change", "Series", "Span", "find_changes"]

_LEAST_RATIO = 1.2  # of two levels: less is not worth telling
_LEAST_DEVIATIONS = 2.0  # of single values: what hangs together wanders by one or two
_SLOPING = 0.3  # of the change beside it: what a level itself moves by that is on its way
_SHORT = 0.2  # of the time: a level between two others that is no more is on its way
_FEWEST = 5
_START_SHARE, _START_S = 0.15, 10.0  # how long the level that a run begins with lasts if it is a part of its start
_QUICK_START_SHARE = 0.25  # the same of a level that is worse than what follows: caches and clocks warm up


@dataclass(frozen=True)
class Series:
    """A figure over time.

    Attributes:
        edges_s: `[n + 1]`, at even distances: seconds since the run began.
        values: `[n]`, positive: one between two edges.
    """

    edges_s: Values
    values: Values

    def mean(self, span: Span) -> float:
        """Return the mean of the values that are at least half in a span; its level where there is none."""
        middles_s = (self.edges_s[:-1] + self.edges_s[1:]) / 2
        values = self.values[(middles_s >= span.begin_s) & (middles_s < span.end_s)]
        return float(values.mean()) if len(values) else span.level


@dataclass(frozen=True)
class Span:
    """A time in which a figure kept its level.

    Attributes:
        begin_s, end_s: of it, in seconds since the run began.
        level: median of the figure.
    """

    begin_s: float
    end_s: float
    level: float


@dataclass(frozen=True)
class Change:
    """A figure went from one level to another one.

    Attributes:
        before, after: the levels. Of one that was on its way, the outer part.
        begin_s, end_s: when the change began and when it was over; at once: the same.
        earliest_s, latest_s: between which it began, with a chance of 95 %.
        is_gradual: whether it came little by little.
    """

    before: Span
    after: Span
    begin_s: float
    end_s: float
    earliest_s: float
    latest_s: float
    is_gradual: bool

    @property
    def ratio(self) -> float:
        """Of the level afterwards to the one before."""
        return self.after.level / self.before.level


@dataclass(frozen=True)
class _Level:
    begin: int
    end: int
    earliest: int  # that its begin may be
    latest: int


def find_changes(series: Series, *, more_is_better: bool = True) -> list[Change]:
    """Return the changes of a figure that are worth telling, in order; that of a run's start is none.

    Args:
        series: the figure.
        more_is_better: else a figure that falls in the beginning is what warms up.
    """
    logs = np.log(series.values)
    levels = [_Level(0, len(logs), 0, 0)]
    for point in find_change_points(logs, _FEWEST):
        levels[-1] = replace(levels[-1], end=point.index)
        levels.append(_Level(point.index, len(logs), point.earliest, point.latest))
    levels = _without_start(series, levels, logs if more_is_better else -logs)
    while groups := _groups(levels, logs):
        sizes = [abs(_middle(logs, levels[last]) - _middle(logs, levels[first - 1])) for first, last in groups]
        least = min(range(len(sizes)), key=sizes.__getitem__)
        if sizes[least] >= max(math.log(_LEAST_RATIO), _LEAST_DEVIATIONS * _deviation(logs, levels)):
            break
        first, last = groups[least]
        levels[first - 1 : last + 1] = [replace(levels[first - 1], end=levels[last].end)]
    return [_change(series, logs, levels[first - 1 : last + 1]) for first, last in groups]


def _without_start(series: Series, levels: list[_Level], goodness: Values) -> list[_Level]:
    """Return levels without the first one if that is but the start of the run."""
    if len(levels) == 1:
        return levels
    first, second = levels[:2]
    length_s = series.edges_s[first.end] - series.edges_s[first.begin]
    whole_s = series.edges_s[-1] - series.edges_s[0]
    share = _START_SHARE if _middle(goodness, first) >= _middle(goodness, second) else _QUICK_START_SHARE
    return levels[1:] if length_s < max(_START_S, share * whole_s) else levels


def _groups(levels: Sequence[_Level], logs: Values) -> list[tuple[int, int]]:
    """Return which levels a change leads to, the first and the last: several that are on their way are one change."""
    groups: list[tuple[int, int]] = []
    for number in range(1, len(levels)):
        jump = _middle(logs, levels[number]) - _middle(logs, levels[number - 1])
        if groups:
            before = _middle(logs, levels[number - 1]) - _middle(logs, levels[number - 2])
            between = levels[number - 1]
            is_short = between.end - between.begin <= _SHORT * len(logs)
            if before * jump > 0 and (is_short or _moves(logs, between, (before + jump) / 2)):
                groups[-1] = (groups[-1][0], number)
                continue
        groups.append((number, number))
    return groups


def _change(series: Series, logs: Values, levels: Sequence[_Level]) -> Change:
    first, last = levels[0], levels[-1]
    jump = _middle(logs, last) - _middle(logs, first)
    is_sloping = _moves(logs, first, jump) and _moves(logs, last, jump)
    before, after = (first.begin, first.end), (last.begin, last.end)
    if is_sloping:
        before = first.begin, first.begin + max(_FEWEST // 2, (first.end - first.begin) // 3)
        after = last.end - max(_FEWEST // 2, (last.end - last.begin) // 3), last.end
    is_gradual = is_sloping or len(levels) > 2
    edges_s = series.edges_s
    return Change(
        before=_span(series, *before),
        after=_span(series, *after),
        begin_s=float(edges_s[before[1]]),
        end_s=float(edges_s[after[0]]),
        earliest_s=float(edges_s[before[1] if is_sloping else levels[1].earliest]),
        latest_s=float(edges_s[before[1] if is_sloping else levels[1].latest]),
        is_gradual=is_gradual,
    )


def _span(series: Series, begin: int, end: int) -> Span:
    level = float(np.median(series.values[begin:end]))
    return Span(float(series.edges_s[begin]), float(series.edges_s[end]), level)


def _deviation(logs: Values, levels: Sequence[_Level]) -> float:
    """Return the standard deviation of values around their levels, which outliers have no part in."""
    apart = [np.abs(logs[level.begin : level.end] - _middle(logs, level)) for level in levels]
    return MAD * float(np.median(np.concatenate(apart)))


def _middle(logs: Values, level: _Level) -> float:
    return float(np.median(logs[level.begin : level.end]))


def _moves(logs: Values, level: _Level, jump: float) -> bool:
    """Tell whether a level itself moves in the direction of a change beside it, by a part of that."""
    third = max(1, (level.end - level.begin) // 3)
    begin, end = logs[level.begin : level.begin + third], logs[level.end - third : level.end]
    # From the middle of the first third to that of the last is two thirds of the way.
    return bool(float(np.median(end) - np.median(begin)) * 1.5 * np.sign(jump) >= _SLOPING * abs(jump))
