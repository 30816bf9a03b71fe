"""Several ranks that train together, and hold each other up: one is slower, or adding up gradients takes long."""

from __future__ import annotations

from sample_profiler.analysis.facts import ComponentLoad
from sample_profiler.analysis.findings import LITTLE, MUCH, Advice, Finding, JudgedRun, percent
from sample_profiler.vocabulary import (
    ADDING_UP_RATIO,
    ALL_REDUCE,
    FOR_BATCHER,
    FOR_RANKS,
    SLOWEST_RANK,
    SLOWEST_RANK_IN_STEPS,
)

__all__ = ["adding_up", "all_reduce_share", "slow_in_steps", "slow_rank"]


def slow_rank(run: JudgedRun) -> Finding | None:
    """The Learner has its dataset, and waits for those of another rank, and so do the workers, for memory.

    A rank that is ahead by a little has its memory full, too; but its workers wait for no more than that little.
    """
    learner = run.learner
    if learner is None or SLOWEST_RANK not in learner.gauges:
        return None
    waits, for_own = (learner.waits.get(awaited, 0.0) for awaited in (FOR_RANKS, FOR_BATCHER))
    factor = min(1 / max(1 - waits, LITTLE), run.sampling_room())
    if waits < MUCH or waits < for_own or factor < 1 + LITTLE:
        return None
    slowest = f"rank {learner.gauges[SLOWEST_RANK]:.0f}"
    evidence = [
        f"{learner.name} waits {percent(waits)} of the time for other ranks, whose datasets are not complete",
        f"{slowest} waits for the others least of all",
        f"for data of its own rank it waits {percent(for_own)} of the time, while workers wait "
        f"{percent(run.waits_for_learner)} of theirs for memory",
    ]
    why = "what limits that one limits all; with cores, workers and games as the others have it would not"
    change = f"look at the report of {slowest}: its folder ends in .rank{learner.gauges[SLOWEST_RANK]:.0f}"
    advice = [Advice(change, why, run.gain(factor, 0.1))]
    return Finding("ranks", learner.name, f"Another rank is the limit: all wait for {slowest}", evidence, advice)


def slow_in_steps(run: JudgedRun) -> Finding | None:
    """The Learner has computed its gradients, and waits for those of another rank."""
    learner = run.learner
    if learner is None:
        return None
    share, _ = all_reduce_share(learner)
    waits = share * (1 - learner.gauges.get(ADDING_UP_RATIO, 1.0))
    if waits < MUCH or waits < run.learner_waits:
        return None
    slowest = f"rank {learner.gauges[SLOWEST_RANK_IN_STEPS]:.0f}"
    evidence = [
        f"{learner.name} adds up over the ranks for {percent(share)} of the time, which takes {slowest} "
        f"{percent(share - waits)}",
        f"{percent(waits)} of the time it waits in optimizer steps until {slowest} has its gradients, too",
        *run.describe_waits_for_learner(),
    ]
    change = f"look at the report of {slowest}: what keeps its Learner from the processor, or from the GPU"
    why = "all train as quickly as the slowest of them"
    advice = [Advice(change, why, run.gain(1 / max(1 - waits, LITTLE), 0.1))]
    headline = f"Another rank is the limit: all wait for {slowest} in each step"
    return Finding("ranks", learner.name, headline, evidence, advice)


def adding_up(run: JudgedRun) -> Finding | None:
    """The Learner sets the pace, and adding up gradients over the ranks is much of its work."""
    learner = run.learner
    if learner is None or not run.is_paced_by_learner:
        return None
    share, number = all_reduce_share(learner)
    if share < MUCH or not number:
        return None
    each_ms = 1000 * share * run.facts.seconds / number
    evidence = [
        f"{learner.name} adds up over the ranks for {percent(share)} of the time: {each_ms:.2f} ms each time",
        *run.describe_waits_for_learner(),
        *run.describe_sleeps(learner),
    ]
    wanted = run.sampling_room()
    larger = f"--batch_size={2 * int(run.facts.flag('batch_size', 1))}"
    factor = min(1 / max(1 - share / 2, LITTLE), wanted)
    advice = [
        Advice(larger, "gradients are added up half as often; watch the learning curve", run.gain(factor, 0.2)),
        Advice("a faster network between the ranks, or fewer ranks with more cores each", "gradients travel less far"),
    ]
    headline = "Adding up gradients is the limit: the ranks wait for the network, or for the slowest in each step"
    return Finding("all-reduce", learner.name, headline, evidence, advice)


def all_reduce_share(learner: ComponentLoad) -> tuple[float, int]:
    """Return the share of the wall that adding up takes, wherever it is done, and how often that is."""
    paths = [path for path in learner.blocks if path.rpartition("/")[2] == ALL_REDUCE]
    return sum(learner.blocks[path] for path in paths), sum(learner.counts[path] for path in paths)
