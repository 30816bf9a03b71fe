"""Workers that are lost, and others started in their place."""

from __future__ import annotations

from collections import defaultdict

from sample_profiler.analysis.findings import MUCH, Advice, Finding, JudgedRun, percent
from sample_profiler.component_id import ROLLOUT_WORKER

__all__ = ["lost_workers"]

_FEWEST = 2
_MOST_NAMED = 3


def lost_workers(run: JudgedRun) -> Finding | None:
    """Workers are lost so often that those in their places do little else than start."""
    starts_s = defaultdict[str, list[float]](list)  # of all processes of a worker, one after another
    for load in run.workers:
        starts_s[load.name].append(load.account.start_s)
    again_s = {name: _without_first(sorted(starts)) for name, starts in starts_s.items() if len(starts) > 1}
    num_lost, starting_s = sum(map(len, again_s.values())), sum(map(sum, again_s.values()))
    wall_s = sum(load.account.wall_s for load in run.workers)
    if num_lost < _FEWEST or not wall_s or starting_s < MUCH * wall_s:
        return None
    names = sorted(again_s, key=lambda name: -len(again_s[name]))
    counted = [(name, len(again_s[name])) for name in names[:_MOST_NAMED]]
    evidence = [f"{name} was lost {number} time{'s' * (number > 1)}" for name, number in counted]
    evidence.append(f"one takes {starting_s / num_lost:.1f} s to start")
    why = "the log says of each why it is lost; sample-profiler doctor tries the environment alone"
    headline = (
        f"Workers are lost and others started, {num_lost} times in {run.facts.seconds:.0f} s: that is "
        f"{percent(starting_s / wall_s)} of the time of all workers"
    )
    component = names[0] if len(names) == 1 else ROLLOUT_WORKER
    return Finding("lost workers", component, headline, evidence, [Advice("what ends them", why)])


def _without_first(starts_s: list[float]) -> list[float]:
    """Leave out the start of the process that was there before the others: none in this window, or maybe the longest.

    Args:
        starts_s: sorted.
    """
    return starts_s[1:] if starts_s[0] == 0 else starts_s[:-1]
