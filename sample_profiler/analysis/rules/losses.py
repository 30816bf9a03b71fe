"""Workers that are lost, and others started in their place."""

from __future__ import annotations

from collections import Counter

from sample_profiler.analysis.findings import MUCH, Advice, Finding, JudgedRun, percent
from sample_profiler.component_id import ROLLOUT_WORKER
from sample_profiler.vocabulary import START_UP

__all__ = ["lost_workers"]

_FEWEST = 2
_MOST_NAMED = 3


def lost_workers(run: JudgedRun) -> Finding | None:
    """Workers are lost so often that those in their places do little else than start."""
    processes = Counter(load.name for load in run.workers)
    num_lost = processes.total() - len(processes)
    starts_s = [start_s for load in run.workers if (start_s := load.account.work.get(START_UP, 0.0))]
    wall_s = sum(load.account.wall_s for load in run.workers)
    if num_lost < _FEWEST or sum(starts_s) < MUCH * wall_s:
        return None
    lost = [(name, number) for name, number in processes.most_common() if number > 1]
    evidence = [f"{name} had {number} processes, one after another" for name, number in lost[:_MOST_NAMED]]
    evidence.append(f"one takes {sum(starts_s) / len(starts_s):.1f} s to start")
    advice = [
        Advice("what ends them", "the log says of each why it is lost; sample-profiler doctor tries the environment")
    ]
    headline = (
        f"Workers are lost and others started, {num_lost} times in {run.facts.seconds:.0f} s: that is "
        f"{percent(sum(starts_s) / wall_s)} of their time"
    )
    return Finding("lost workers", lost[0][0] if len(lost) == 1 else ROLLOUT_WORKER, headline, evidence, advice)
