"""The slowest trajectories of a timeline, each on a track of its own with the stages of its life."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sample_profiler.analysis.lives import STAGES, Life
from sample_profiler.reports.timeline.tracks import Tracks

__all__ = ["SLOWEST", "trajectory_events"]

SLOWEST = "Slowest trajectories"
"""The process of the trace that has them."""


def trajectory_events(lives: Sequence[Life], tracks: Tracks) -> Iterator[dict[str, Any]]:
    """Yield where each trajectory and each stage of it begins and ends; of those before the trace nothing."""
    shown = [life for life in lives if life.moments_ns[0] >= tracks.zero_ns]
    if not shown:
        return
    yield from tracks.begin_process(SLOWEST, rank=0)
    for number, life in enumerate(shown):
        spans = [(f"slot {life.slot} of {life.worker}", life.moments_ns[0], life.moments_ns[-1])]
        spans += zip(STAGES, life.moments_ns[:-1], life.moments_ns[1:], strict=True)
        for name, begin_ns, end_ns in spans:
            shared = {"cat": "trajectory", "id": number, "name": name, "pid": tracks.processes[SLOWEST], "tid": 0}
            yield {"ph": "b", **shared, "ts": tracks.us(begin_ns)}
            yield {"ph": "e", **shared, "ts": tracks.us(end_ns)}
