"""The way of trajectories to the Learner: who makes datasets of them, and how old they are when they are trained on."""

from __future__ import annotations

from dataclasses import dataclass

from sample_profiler.analysis.facts import ComponentLoad
from sample_profiler.analysis.findings import MUCH, OWN_WORK, Advice, Finding, JudgedRun, describe_blocks, percent
from sample_profiler.component_id import BATCHER, ComponentId
from sample_profiler.vocabulary import FINISHED_TRAJECTORIES, LEFT_OUT_SHARE, POLICY_LAG, TRAJECTORIES_AT_LEARNER

__all__ = ["batching", "left_out", "old_samples"]

_MOSTLY = 0.7  # of the wall: what a Batcher does for a trajectory is next to nothing
_MUCH_LEFT_OUT = 0.1
_OLD_DATASETS = 5.0  # memory for --num_batches_to_accumulate=2 holds no trajectory for longer than about four
_LONG_LINE_DATASETS = 2.0


def batching(run: JudgedRun) -> Finding | None:
    """Even the busiest Learner waits for datasets, and a Batcher works most of the time."""
    batcher = max(run.facts.of_kind(BATCHER), key=lambda load: load.busy, default=None)
    if batcher is None or run.learner is None or run.learner_waits < MUCH:
        return None
    if batcher.busy < _MOSTLY or run.own_work(batcher) < OWN_WORK:
        return None
    evidence = [
        f"{batcher.name} works {percent(batcher.busy)} of the time: {describe_blocks(batcher)}",
        f"{run.learner.name} waits {percent(run.learner_waits)} of the time for a dataset",
        f"{batcher.gauges.get(FINISHED_TRAJECTORIES, 0.0):.0f} finished trajectories wait for being handed over",
    ]
    rollout = 2 * int(run.facts.flag("rollout", 32))
    batch_size = int(run.facts.flag("batch_size", rollout))
    fitting = -(-batch_size // rollout) * rollout
    change = f"--rollout={rollout}" + ("" if fitting == batch_size else f" --batch_size={fitting}")
    why = "the same samples are half as many trajectories, and the Batcher's work is by trajectory"
    advice = [Advice(change, why, run.gain(run.room(run.inference_room(run.learner_room(2.0)))))]
    headline = "Making datasets is the limit: the Batcher cannot keep up with the trajectories"
    return Finding("batching", batcher.name, headline, evidence, advice)


def left_out(run: JudgedRun) -> Finding | None:
    """Much of what is sampled is left out of training, since it is older than the run accepts."""
    lag = max((_lag_of(run, load) for load in run.facts.learners), key=lambda each: each.left_out, default=None)
    if lag is None or lag.left_out < _MUCH_LEFT_OUT:
        return None
    most = int(run.facts.flag("max_policy_lag", 1000, least=0))
    evidence = [
        f"{lag.learner} left out {percent(lag.left_out)} of the steps of its latest dataset: they were more than "
        f"{most} optimizer steps old",
        *lag.describe(),
    ]
    advice = _fresher(run, lag) if lag.line >= 1 or run.num_envs * len(run.workers) > lag.dataset_slots else []
    older = f"--max_policy_lag={max(2 * most, round(2 * lag.steps))}"
    if run.facts.flag("with_vtrace", False):
        advice.append(Advice(older, "V-trace corrects for their age", run.gain(1.0)))
    else:
        advice.append(Advice(f"{older} --with_vtrace=True", "they are trained on then, corrected for their age"))
    headline = "Policy lag is the limit: much of what is sampled is too old to be trained on"
    return Finding("policy lag", lag.learner, headline, evidence, advice)


def old_samples(run: JudgedRun) -> Finding | None:
    """Trajectories wait in a long line, and are old when they are trained on."""
    lag = max((_lag_of(run, load) for load in run.facts.learners), key=lambda each: each.datasets, default=None)
    if lag is None or lag.datasets < _OLD_DATASETS or lag.line < _LONG_LINE_DATASETS:
        return None
    headline = f"Samples are {lag.datasets:.0f} datasets old when they are trained on: they wait in a long line"
    return Finding("policy lag", lag.learner, headline, lag.describe(), _fresher(run, lag))


@dataclass(frozen=True)
class _Lag:
    """How old the samples of one Learner are.

    Attributes:
        learner: its name.
        steps: age of its latest dataset in optimizer steps, on average.
        datasets: the same in datasets, as far as each has its full number of steps.
        line: datasets that wait for it, beyond the one that it trains on.
        dataset_slots: trajectories in a dataset.
        left_out: share of the steps of its latest dataset that were too old.
    """

    learner: str
    steps: float
    datasets: float
    line: float
    dataset_slots: int
    left_out: float

    def describe(self) -> list[str]:
        return [
            f"samples are {self.steps:.0f} optimizer steps old on average, those of {self.datasets:.1f} datasets",
            f"{self.line * self.dataset_slots:.0f} trajectories wait behind the dataset that {self.learner} trains on, "
            f"which has {self.dataset_slots}",
        ]


def _lag_of(run: JudgedRun, learner: ComponentLoad) -> _Lag:
    flag = run.facts.flag
    steps = learner.gauges.get(POLICY_LAG, 0.0)
    num_batches = int(flag("num_batches_per_epoch", 1))
    dataset_slots = max(1, int(flag("batch_size", 1)) * num_batches // int(flag("rollout", 32)))
    waiting = sum(
        batcher.gauges.get(FINISHED_TRAJECTORIES, 0.0) + batcher.gauges.get(TRAJECTORIES_AT_LEARNER, 0.0)
        for batcher in run.facts.of_kind(BATCHER)
        if ComponentId.parse(batcher.name).policy == ComponentId.parse(learner.name).policy
    )
    return _Lag(
        learner=learner.name,
        steps=steps,
        datasets=steps / (num_batches * int(flag("num_epochs", 1))),
        line=max(0.0, waiting / dataset_slots - 1),
        dataset_slots=dataset_slots,
        left_out=learner.gauges.get(LEFT_OUT_SHARE, 0.0),
    )


def _fresher(run: JudgedRun, lag: _Lag) -> list[Advice]:
    """Advise what makes samples younger; as many are trained on as before."""
    advice = []
    accumulated = int(run.facts.flag("num_batches_to_accumulate", 2))
    if accumulated > 1 and lag.line >= 1:
        why = "sampling pauses earlier, instead of filling the line"
        advice.append(Advice(f"--num_batches_to_accumulate={accumulated // 2}", why, run.gain(1.0)))
    fewer = run.num_envs // 2
    if fewer >= int(run.facts.flag("worker_num_splits", 2)):
        why = "fewer rollouts are under way at once, and each is finished sooner"
        advice.append(Advice(f"--num_envs_per_worker={fewer}", why, run.gain(1.0)))
    if not advice:
        change = f"--batch_size={2 * int(run.facts.flag('batch_size', 1))}"
        advice.append(Advice(change, "the line is as long, but half as many optimizer steps", run.gain(1.0)))
    return advice
