"""Owns how the life of trajectories looks in tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from sample_profiler.analysis.lives import Life, slowest, stage_times
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.reports.sections.tables import format_seconds

__all__ = ["STAGE_TITLES", "WORST_TITLES", "describe_lag", "lives_to_dict", "stage_rows", "worst_rows"]

STAGE_TITLES = ("stage", "median", "90 %", "99 %", "longest")
WORST_TITLES = ("worker", "slot", "took", "most of it", "ended before the last")


def stage_rows(lives: Sequence[Life]) -> list[list[str]]:
    """Return a row for each stage, and for all of them."""
    return [
        [times.stage, *map(format_seconds, (times.p50_s, times.p90_s, times.p99_s, times.max_s))]
        for times in stage_times(lives)
    ]


def worst_rows(lives: Sequence[Life]) -> list[list[str]]:
    """Return rows for the trajectories that took longest, with how long before the last one they had ended."""
    last_ns = max((life.moments_ns[-1] for life in lives), default=0)
    return [
        [
            life.worker,
            str(life.slot),
            format_seconds(life.total_s),
            life.longest_stage,
            format_seconds((last_ns - life.moments_ns[-1]) / NS_PER_S),
        ]
        for life in slowest(lives)
    ]


def describe_lag(lives: Sequence[Life]) -> str:
    """Say how many versions of the weights were published while trajectories were on their way; empty without any."""
    if not lives:
        return ""
    lags = [life.num_published for life in lives]
    return (
        f"Of {len(lives):,} trajectories of the latest seconds. From the first step of one to the training on it, "
        f"weights were published {median(lags):.0f} times in the median, {max(lags)} times at most."
    )


def lives_to_dict(lives: Sequence[Life]) -> dict[str, Any]:
    """Return JSON-ready data."""
    return {
        "num_trajectories": len(lives),
        "stages": [asdict(times) for times in stage_times(lives)],
        "num_published": [life.num_published for life in lives],
    }
