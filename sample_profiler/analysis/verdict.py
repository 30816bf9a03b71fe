"""What limits a run, how that is known, what to change, and how much it would give.

A run is a ring: workers step environments, inference answers them, the Learner trains on what they made and gives
memory back. In such a ring the one that never waits sets the pace, and all others wait for it, directly or not (Denning
and Buzen 1978, "The operational analysis of queueing network models"). So waits, not busy times, are what is looked at
first; then processors, which all of them share; then what makes a component slower than it has to be.

Rules are tried in an order in which the special comes before the general; the first that holds is the verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sample_profiler.analysis.facts import RunFacts
from sample_profiler.analysis.findings import Advice, Cause, Finding, JudgedRun
from sample_profiler.analysis.rules import (
    confined,
    device,
    losses,
    observers,
    processors,
    ranks,
    remote,
    sampling,
    stragglers,
    training,
    trajectories,
    transfer,
    waiting,
)
from sample_profiler.analysis.rules import enough_data as extent

__all__ = ["Advice", "Cause", "Verdict", "judge"]


@dataclass(frozen=True)
class Verdict:
    """What limits a run.

    Attributes:
        cause: in one term.
        component: whom it concerns; empty: nobody in particular.
        headline: in one sentence.
        evidence: what shows it, one sentence each.
        advice: what to do, the best first; empty where there is nothing to do.
        fps: frames per second that it is about; None: not known.
        seconds: length of the window that it is about.
    """

    cause: Cause
    component: str
    headline: str
    evidence: tuple[str, ...]
    advice: tuple[Advice, ...]
    fps: float | None
    seconds: float


def judge(facts: RunFacts) -> Verdict:
    """Return the verdict on a run, or on a window of it: a good one is steady, and some ten seconds long."""
    run = JudgedRun(facts)
    finding = next(finding for rule in _RULES if (finding := rule(run)) is not None)
    finding = extent.mention_start(run, observers.mention_observers(run, finding))
    finding = processors.mention_other_programs(run, extent.mention_standstill(run, finding))
    return Verdict(
        finding.cause,
        finding.component,
        finding.headline,
        tuple(finding.evidence),
        tuple(finding.advice),
        facts.fps,
        facts.seconds,
    )


_RULES: tuple[Callable[[JudgedRun], Finding | None], ...] = (
    extent.no_records,
    losses.lost_workers,
    processors.too_many_threads_at_start,
    extent.slow_resets,
    extent.slow_start,
    extent.never_steady,
    extent.start_was_most,
    extent.not_enough_data,
    observers.serial_observers,
    device.launches,
    device.simulator,
    device.training_on_device,
    extent.serial,
    confined.quota,
    ranks.slow_rank,
    ranks.slow_in_steps,
    remote.way_of_trajectories,
    confined.one_core,
    stragglers.rare_slow_steps,
    stragglers.slow_environment,
    stragglers.slow_worker,
    processors.too_many_threads,
    sampling.too_many_inference_workers,
    trajectories.batching,
    trajectories.left_out,
    training.taking_turns,
    training.buffers,
    transfer.learner_transfer,
    training.saving,
    ranks.adding_up,
    processors.too_few_threads,
    training.learner,
    sampling.small_inference_batches,
    transfer.inference_transfer,
    sampling.inference,
    sampling.self_served_inference,
    waiting.waiting_environments,
    sampling.environments,
    sampling.too_few_environments,
    trajectories.old_samples,
    sampling.most_work,
    processors.processor,
    processors.balanced,
)
