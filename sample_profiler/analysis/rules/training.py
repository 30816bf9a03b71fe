"""What holds up the way of trajectories to the Learner, and the Learner itself."""

from __future__ import annotations

import math

from sample_profiler.analysis.facts import ComponentLoad
from sample_profiler.analysis.findings import (
    LITTLE,
    Advice,
    Finding,
    JudgedRun,
    describe_blocks,
    largest_block,
    percent,
)
from sample_profiler.vocabulary import ENV_STEP, FOR_LEARNER, SAVE_CHECKPOINT, TRAIN

__all__ = ["buffers", "learner", "saving", "taking_turns"]

_MUCH_SAVING = 0.1  # of the Learner's wall
_LITTLE_SAVING = 0.02


def taking_turns(run: JudgedRun) -> Finding | None:
    """The Learner and the workers wait for each other since one of them works at a time."""
    if run.facts.flag("async_rl", True) or run.learner is None:
        return None
    if run.learner_waits < LITTLE or run.waits_for_learner < LITTLE:
        return None
    factor = run.room(min(1 / max(1 - run.learner_waits, 0.05), 1 / max(1 - run.waits_for_learner, 0.05)))
    evidence = [
        f"{run.learner.name} waits {percent(run.learner_waits)} of the time for workers to finish their rollouts",
        f"workers wait {percent(run.waits_for_learner)} of the time for the Learner",
    ]
    # At the same time each has less of the cores and of the caches than it had alone.
    why = "both then work at the same time; samples are some optimizer steps old"
    advice = [Advice("--async_rl=True", why, run.gain(factor, 0.2))]
    return Finding("taking turns", run.learner.name, "Sampling and training take turns", evidence, advice)


def buffers(run: JudgedRun) -> Finding | None:
    """The Learner waits for a dataset, and workers wait for the memory that would complete it.

    An asynchronous run has memory for more than one dataset, but it is dealt out to the workers: those that are quick
    fill their own, and then wait with the Learner for the others.
    """
    if run.learner is None or run.learner_waits < 0.2 or run.waits_for_learner < 0.2:
        return None
    factor = run.room(run.learner_room(_without_waits(run)), saved=_cores_of_unhindered(run))
    waits = [load.waits.get(FOR_LEARNER, 0.0) for load in run.workers]
    accumulated = int(run.facts.flag("num_batches_to_accumulate", 2))
    evidence = [
        f"{run.learner.name} waits {percent(run.learner_waits)} of the time for a dataset",
        f"and workers wait {percent(run.waits_for_learner)} of theirs, from {percent(min(waits))} to "
        f"{percent(max(waits))}, for memory to fill",
    ]
    why = "workers then have more memory to fill meanwhile"
    advice = [Advice(f"--num_batches_to_accumulate={accumulated + 2}", why, run.gain(factor, 0.1))]
    rollout = int(run.facts.flag("rollout", 32))
    fewer = int(run.facts.flag("batch_size", 0)) // (2 * rollout) * rollout  # batches are whole rollouts
    if fewer:
        # There is half as much memory then, too, but for what each agent is writing: it may give nothing.
        why = "half as much has to be complete at once"
        advice.append(Advice(f"--batch_size={fewer}", why, run.gain(factor, 0.0)))
    return Finding(
        "buffers", run.learner.name, "The batch is too large for the memory that workers fill", evidence, advice
    )


def _without_waits(run: JudgedRun) -> float:
    """Return how many times as much workers would make that never waited for memory: the quick ones wait for most."""
    made = sum(load.counts.get(ENV_STEP, 0) for load in run.workers)
    return sum(map(run.makes_unhindered, run.workers)) / made if made else 1.0


def _cores_of_unhindered(run: JudgedRun) -> float:
    """Return the cores of workers that wait for no memory: with more of it these take no more."""
    return sum(load.cpu or 0.0 for load in run.workers if load.waits.get(FOR_LEARNER, 0.0) < LITTLE)


def saving(run: JudgedRun) -> Finding | None:
    """The Learner sets the pace, and saves checkpoints for much of its time."""
    learner = run.learner
    if learner is None or not run.is_paced_by_learner:
        return None
    paths = [path for path in learner.blocks if path.rpartition("/")[2] == SAVE_CHECKPOINT]
    share, number = sum(learner.blocks[path] for path in paths), sum(learner.counts[path] for path in paths)
    if share < _MUCH_SAVING or not number:
        return None
    saved_s, every_s = share * run.facts.seconds / number, run.facts.seconds / number
    evidence = [
        f"{learner.name} saves {percent(share)} of the time: {saved_s:.2f} s each, every {every_s:.1f} s",
        *run.describe_waits_for_learner(),
        *run.describe_sleeps(learner),
    ]
    factor = min(1 / max(1 - share, 0.1), run.sampling_room())
    rarely_s = max(2 * every_s, saved_s / _LITTLE_SAVING)
    why = "it trains instead; a run that is killed loses what it has learned since the last one"
    advice = [Advice(f"--{_saved_by(run, every_s)}={rarely_s:.0f}", why, run.gain(factor, 0.2))]
    return Finding(
        "saving", learner.name, "Saving is the limit: the Learner does not train meanwhile", evidence, advice
    )


def _saved_by(run: JudgedRun, every_s: float) -> str:
    """Return the flag by which checkpoints are saved about so often."""
    flags = ("save_every_sec", "save_best_every_sec", "save_milestones_sec")
    by_flag = {name: value for name in flags if (value := run.facts.flag(name, 0.0)) > 0}
    return min(by_flag, key=lambda name: abs(math.log(by_flag[name] / every_s)), default=flags[0])


def learner(run: JudgedRun) -> Finding | None:
    """The Learner works nearly all the time, and workers wait for it, or it never waits itself."""
    learner = run.learner
    if learner is None or not run.is_paced_by_learner:
        return None
    wanted = run.sampling_room()
    evidence = [
        f"{learner.name} trains {percent(learner.busy)} of the time and waits {percent(run.learner_waits)} for data",
        *run.describe_waits_for_learner(),
        f"most of it: {describe_blocks(learner)}",
    ]
    if run.is_learner_idling:
        computing = f"it computes only {percent(learner.cpu or 0.0)} of the time"
        evidence.append(f"{computing}: it waits inside {largest_block(learner)}")
        evidence += run.describe_sleeps(learner)
    advice = []
    epochs = int(run.facts.flag("num_epochs", 1))
    if epochs > 1:
        training = learner.blocks.get(TRAIN, learner.busy)
        factor = 1 / max(1 - training * (1 - (epochs - 1) / epochs), 0.1)
        change = f"--num_epochs={epochs - 1}"
        advice.append(
            Advice(
                change,
                f"each sample is trained on {epochs} times; watch the learning curve",
                run.gain(min(factor, wanted)),
            )
        )
    if run.may_gain_by_bf16:
        advice.append(Advice("--precision=bf16", "where the processor or GPU has it", run.gain(min(1.35, wanted), 0.1)))
    if run.is_learner_idling:
        change, wanted = f"look at what {largest_block(learner)} waits for", _room_without_idling(run, learner)
    else:
        change = "a smaller network or a faster GPU" if run.is_on_gpu else "a smaller network or a GPU"
    advice.append(Advice(change, "more workers give nothing: they wait already", run.gain(wanted, 0.1)))
    return Finding(
        "learner", learner.name, "Training is the limit: the Learner cannot keep up with the workers", evidence, advice
    )


def _room_without_idling(run: JudgedRun, learner: ComponentLoad) -> float:
    """Return how many times as fast the run is where the Learner does not wait inside its blocks any more."""
    needed = (learner.cpu or 0.0) + learner.starved_share
    return run.room(run.inference_room(min(learner.busy / max(needed, 0.01), _without_waits(run))))
