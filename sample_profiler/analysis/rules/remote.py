"""Sampling on other machines, whose trajectories take long to come."""

from __future__ import annotations

from sample_profiler.analysis.findings import MUCH, Advice, Finding, JudgedRun, describe_blocks, percent
from sample_profiler.component_id import REMOTE_SAMPLER
from sample_profiler.vocabulary import WAY_SHARE

__all__ = ["way_of_trajectories"]

_MOSTLY = 0.5  # of the time for which actors are asked for a dataset


def way_of_trajectories(run: JudgedRun) -> Finding | None:
    """The Learner waits for data, and actors elsewhere for their datasets to be on the way and back."""
    sampler = next(iter(run.facts.of_kind(REMOTE_SAMPLER)), None)
    if sampler is None or run.learner is None or run.learner_waits < MUCH:
        return None
    share = sampler.gauges.get(WAY_SHARE, 0.0)
    if share < _MOSTLY:
        return None
    evidence = [
        f"{run.learner.name} waits {percent(run.learner_waits)} of the time for data",
        f"of the time for which actors are asked for a dataset, it and its weights are on the way for {percent(share)}",
        f"{sampler.name} itself works {percent(sampler.busy)} of the time: {describe_blocks(sampler)}",
    ]
    larger = f"--batch_size={2 * int(run.facts.flag('batch_size', 1))}"
    advice = [
        Advice(larger, "half as many messages; watch the learning curve"),
        Advice("a faster network to the other machines, or smaller observations", "fewer bytes for a frame"),
        Advice("more actors (--ray_actors, --max_nodes)", "several datasets are on their way at once"),
    ]
    headline = "The way of trajectories from other machines is the limit: the Learner waits for them"
    return Finding("remote trajectories", sampler.name, headline, evidence, advice)
