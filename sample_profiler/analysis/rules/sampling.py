"""What holds up sampling: inference, the environments, or that there are too few of them."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

from sample_profiler.analysis.core_shares import STEPPING, core_shares
from sample_profiler.analysis.findings import (
    LITTLE,
    MUCH,
    OWN_WORK,
    Advice,
    Finding,
    JudgedRun,
    cores_in,
    describe_blocks,
    percent,
)
from sample_profiler.component_id import ROLLOUT_WORKER
from sample_profiler.vocabulary import (
    BATCH_ROWS,
    ENQUEUE_POLICY_REQUESTS,
    ENV_STEP,
    HANDLE_POLICY_STEP,
    RECEIVE,
    SEND_MESSAGES,
)

__all__ = [
    *("environments", "inference", "most_work", "own_inference", "self_served_inference", "small_inference_batches"),
    *("too_few_environments", "too_many_inference_workers"),
]

_FEW_ROWS = 6
_MUCH_SENDING = 0.15
_MESSAGES = (f"{HANDLE_POLICY_STEP}/{SEND_MESSAGES}", ENQUEUE_POLICY_REQUESTS, RECEIVE)
_WORKERS_BUSY, _MOST_OF_IT = 0.7, 0.4  # of their wall: they work, and most of it is this
_INFERENCE_BUSY = 0.7  # of its wall
_HARDLY_BUSY = 0.35  # of its wall, without waits for a processor: two such ones are as quick as one


def too_many_inference_workers(run: JudgedRun) -> Finding | None:
    """A policy has more InferenceWorkers than it has work for, and they want processors of others or of each other."""
    number = int(run.facts.flag("policy_workers_per_policy", 1))
    if number < 2 or len(run.inference) < 2 or not (run.is_crowded or run.waits_for_inference >= MUCH):
        return None
    works = [run.own_work(load) for load in run.inference]
    if fmean(works) > _HARDLY_BUSY or (run.is_paced_by_learner and not run.is_crowded):
        return None
    enough = max(1, min(number - 1, math.ceil(number * fmean(works) / _INFERENCE_BUSY)))
    cpu = sum(load.cpu or 0.0 for load in run.inference)
    rows = fmean(load.gauges.get(BATCH_ROWS, 0.0) for load in run.inference)
    evidence = [
        f"each of the {number} inference workers of a policy works {percent(fmean(works))} of the time beside waits "
        f"for a processor, {rows:.1f} observations at once",
        f"all together use {cpu:.1f} cores",
    ]
    if run.facts.machine_busy is not None:
        evidence.append(f"all cores together are {percent(run.facts.machine_busy)} busy")
    why = "fewer calls of the network, each with more observations, for the same steps"
    saved = cpu * (1 - enough / number) / 2
    gain = run.gain(run.room(run.learner_room(2.0), saved), 0.0)
    advice = [Advice(f"--policy_workers_per_policy={enough}", why, gain)]
    headline = f"{number} inference workers for each policy are more than it has work for"
    return Finding("too many inference workers", run.inference[0].name, headline, evidence, advice)


def small_inference_batches(run: JudgedRun) -> Finding | None:
    """Inference is busy with calls of the network on a few observations each, and the Learner waits."""
    if not run.inference or run.inference_busy < MUCH or run.learner_waits < LITTLE:
        return None
    load = max(run.inference, key=lambda each: each.busy)
    rows = load.gauges.get(BATCH_ROWS, 0.0)
    in_flight = run.num_envs * len(run.workers)
    if not 0 < rows < _FEW_ROWS or run.waits_for_inference < LITTLE:
        return None
    more = max(2, run.num_envs * 2)
    evidence = [
        f"{load.name} takes {rows:.1f} observations through the network at once",
        f"it works {percent(load.busy)} of the time, workers wait {percent(run.waits_for_inference)} of theirs for it",
        f"{in_flight} environments are in flight",
    ]
    # Half as many calls and messages for the same steps leave processors to everybody.
    calls = sum(each.cpu or 0.0 for each in run.inference) + sum(
        (each.cpu or 0.0) - cores_in(each, ENV_STEP) for each in run.workers
    )
    twice = run.gain(run.room(run.learner_room(2.0), calls / 2), 0.1)
    in_workers = run.gain(run.room(run.learner_room(1.3), _cores_of_messages(run)), 0.0)
    advice = [
        Advice(f"--num_envs_per_worker={more}", "each call costs about the same for twice the rows", twice),
        Advice(_inference_in_workers(run), "without messages between processes", in_workers),
    ]
    return Finding(
        "small inference batches", load.name, "Inference works on too few observations at once", evidence, advice
    )


def inference(run: JudgedRun) -> Finding | None:
    """Workers wait for actions, inference works nearly all the time, and the Learner waits for what they make."""
    if not run.inference or run.inference_busy < _INFERENCE_BUSY or run.waits_for_inference < MUCH:
        return None
    if run.learner_waits < LITTLE:
        return None  # where only some groups of a worker wait for memory, it waits for the actions of the others
    load = max(run.inference, key=lambda each: each.busy)
    if run.own_work(load) < OWN_WORK:
        return None  # it is busy waiting for a processor, as everybody is
    return _limited_by_inference(run)


def _limited_by_inference(run: JudgedRun) -> Finding:
    load = max(run.inference, key=lambda each: each.busy)
    wanted = run.learner_room(1 / max(1 - run.waits_for_inference, 0.2))
    evidence = [
        f"{load.name} works {percent(load.busy)} of the time, {load.gauges.get(BATCH_ROWS, 0.0):.0f} rows at once",
        f"workers wait {percent(run.waits_for_inference)} of their time for actions",
        f"most of it: {describe_blocks(load)}",
    ]
    advice = []
    if run.num_idle >= 0.8:
        more = int(run.facts.flag("policy_workers_per_policy", 1)) + 1
        advice.append(
            Advice(
                f"--policy_workers_per_policy={more}",
                "cores are idle",
                run.gain(run.room(min(wanted, more / (more - 1))), 0.0),
            )
        )
    advice += own_inference(run)
    if run.may_gain_by_bf16:
        advice.append(Advice("--precision=bf16", "where the processor or GPU has it", run.gain(min(1.3, wanted), 0.1)))
    advice.append(Advice("a smaller network", "for actions", run.gain(wanted, 0.1)))
    return Finding("inference", load.name, "Inference is the limit: workers wait for actions", evidence, advice)


def self_served_inference(run: JudgedRun) -> Finding | None:
    """Workers draw their actions themselves, do little else, and the Learner waits for what they make."""
    if run.inference or run.action_sampling < max(_MOST_OF_IT, run.stepping):
        return None
    if run.worker_busy < _WORKERS_BUSY or run.learner_waits < LITTLE:
        return None
    if fmean(map(run.own_work, run.workers)) < OWN_WORK:
        return None
    return _limited_by_self_served_inference(run)


def _limited_by_self_served_inference(run: JudgedRun) -> Finding:
    rows = fmean(load.gauges.get(BATCH_ROWS, 0.0) for load in run.workers)
    evidence = [
        f"workers draw actions {percent(run.action_sampling)} of the time, {rows:.0f} rows at once, and step "
        f"environments {percent(run.stepping)}",
        f"{run.learner.name if run.learner else 'the Learner'} waits {percent(run.learner_waits)} of the time for data",
    ]
    headline = "Inference is the limit: workers draw actions most of the time"
    return Finding("inference", ROLLOUT_WORKER, headline, evidence, _less_self_served_inference(run, rows))


def _less_self_served_inference(run: JudgedRun, rows: float) -> list[Advice]:
    wanted = run.learner_room(1 / max(1 - run.action_sampling, 0.2))
    advice = []
    cores, num_workers = run.facts.num_cores or 0, len(run.workers)
    if run.num_idle >= 0.5 and num_workers < cores:
        factor = run.room(run.learner_room(cores / num_workers))
        advice.append(Advice(f"--num_workers={cores}", f"{run.num_idle:.1f} cores are idle", run.gain(factor)))
    if 0 < rows < _FEW_ROWS:
        why = "each call costs about the same for twice the rows"
        more = f"--num_envs_per_worker={max(2, 2 * run.num_envs)}"
        advice.append(Advice(more, why, run.gain(min(2.0, wanted), 0.1)))
    if run.may_gain_by_bf16:
        advice.append(Advice("--precision=bf16", "where the processor or GPU has it", run.gain(min(1.3, wanted), 0.1)))
    advice.append(Advice("a smaller network", "for actions", run.gain(wanted, 0.1)))
    why = "a call of the network then serves all workers at once"
    advice.append(Advice("--inference=process", why, run.gain(min(1.3, wanted), 0.0)))
    return advice


def own_inference(run: JudgedRun) -> list[Advice]:
    """Advise inference in the workers where the InferenceWorkers mostly wake them."""
    if not run.inference:
        return []
    load = max(run.inference, key=lambda each: each.busy)
    sending = load.blocks.get(f"{HANDLE_POLICY_STEP}/{SEND_MESSAGES}", 0.0)
    if sending < _MUCH_SENDING:
        return []
    factor = min(1 / (1 - sending), 1 / max(1 - run.waits_for_inference, 0.2))
    why = f"{percent(sending)} of the time of {load.name} goes into waking workers"
    factor = run.room(run.learner_room(factor), _cores_of_messages(run))
    # Now and then it gives nothing: what was overlapped with stepping takes turns with it then.
    return [Advice(_inference_in_workers(run), why, run.gain(factor, 0.0))]


def _cores_of_messages(run: JudgedRun) -> float:
    """Return the cores that sending and receiving takes between inference and workers."""
    return sum(cores_in(load, *_MESSAGES) for load in (*run.inference, *run.workers))


def _inference_in_workers(run: JudgedRun) -> str:
    """Return the flags for it; several inference workers and none exclude each other."""
    is_single = int(run.facts.flag("policy_workers_per_policy", 1)) == 1
    return "--inference=worker" + ("" if is_single else " --policy_workers_per_policy=1")


def environments(run: JudgedRun) -> Finding | None:
    """Workers step environments nearly all the time, and the Learner waits for what they make."""
    if run.worker_busy < _WORKERS_BUSY or run.learner_waits < LITTLE:
        return None
    if run.stepping < max(_MOST_OF_IT, run.action_sampling):
        return None
    if run.is_saturated and not _is_mostly_stepping(run) and fmean(map(run.own_work, run.workers)) < OWN_WORK:
        return None  # whatever they step, they wait for the processors that others use
    return _limited_by_environments(run)


def _limited_by_environments(run: JudgedRun) -> Finding:
    stepping = run.stepping
    wanted = run.inference_room(run.learner_room(4.0))
    evidence = [
        f"workers step environments {percent(stepping)} of the time",
        f"{run.learner.name if run.learner else 'the Learner'} waits {percent(run.learner_waits)} of the time for data",
        *run.describe_sleeps(*run.workers),
    ]
    advice = []
    cores = run.facts.num_cores or 0
    num_workers = len(run.workers)
    if run.num_idle >= 0.5:
        more = max(num_workers + 1, cores)
        factor = run.room(min(wanted, more / num_workers))
        advice.append(Advice(f"--num_workers={more}", f"{run.num_idle:.1f} cores are idle", run.gain(factor)))
    elif run.is_saturated and _is_mostly_stepping(run):
        advice.append(Advice("more cores, and as many --num_workers", "environments compute: each worker wants one"))
    factor = min(wanted, 1 / max(1 - 0.5 * stepping, 0.05))
    advice.append(Advice("a faster environment", _why_faster_environments(run), run.gain(factor, 0.1)))
    headline = f"{'Resetting' if run.is_mostly_resetting else 'Stepping'} environments is the limit"
    return Finding("environments", ROLLOUT_WORKER, headline, evidence, advice)


def _why_faster_environments(run: JudgedRun) -> str:
    if resets := run.describe_resets():
        return resets[0]
    if run.is_saturated and _is_mostly_stepping(run):
        return "all processors are busy, workers mostly with it"
    if run.is_saturated:
        return "workers mostly wait in it, while others use the processors"
    return "nothing else is busy enough to matter" if run.worker_busy >= _WORKERS_BUSY else "nobody works more"


def _is_mostly_stepping(run: JudgedRun) -> bool:
    """Whether nothing uses more of the processors than stepping environments."""
    used = core_shares(run)
    return used[STEPPING] == max(used.values())


def too_few_environments(run: JudgedRun) -> Finding | None:
    """Everybody waits for a message, and nobody is busy."""
    if run.is_saturated or run.facts.machine_busy is None or run.learner is None:
        return None
    if run.learner_waits < MUCH or run.waits_for_inference < MUCH or run.inference_busy > _INFERENCE_BUSY:
        return None
    return _limited_by_their_number(run)


def _limited_by_their_number(run: JudgedRun) -> Finding:
    more = max(2, run.num_envs * 2)
    evidence = [
        f"nobody is busy: {_describe_busy(run)}",
        f"workers wait {percent(run.waits_for_inference)} of their time for actions, inference for requests",
    ]
    advice = [
        Advice(
            f"--num_envs_per_worker={more}",
            "while some wait others step",
            run.gain(run.room(run.learner_room(1.8)), 0.1),
        )
    ]
    if int(run.facts.flag("worker_num_splits", 2)) < 2 and run.num_envs > 1:
        advice.insert(
            0,
            Advice(
                "--worker_num_splits=2",
                "one half steps while the other waits",
                run.gain(run.room(run.learner_room(1.5)), 0.1),
            ),
        )
    return Finding(
        "too few environments",
        ROLLOUT_WORKER,
        "Too few environments are under way to keep anybody busy",
        evidence,
        advice,
    )


def most_work(run: JudgedRun) -> Finding | None:
    """Cores are idle, the Learner waits, and no rule before holds: whoever works most of the others is the limit.

    On crowded processors all of them work for longer than they would, and who does most says little.
    """
    if run.learner_waits < MUCH or run.facts.machine_busy is None or run.is_crowded:
        return None
    if run.inference and run.inference_busy >= max(_INFERENCE_BUSY, run.worker_busy):
        finding = _limited_by_inference(run)
    elif max(run.stepping, run.action_sampling) < MUCH:
        is_anybody_busy = run.worker_busy >= _WORKERS_BUSY or run.waits_for_inference < LITTLE
        return None if is_anybody_busy else _limited_by_their_number(run)
    elif run.action_sampling >= run.stepping:
        finding = _limited_by_self_served_inference(run)
    else:
        finding = _limited_by_environments(run)
    return replace(finding, evidence=[*finding.evidence, f"nobody works more: {_describe_busy(run)}"])


def _describe_busy(run: JudgedRun) -> str:
    parts = [f"workers {percent(run.worker_busy)}"]
    if run.inference:
        parts.append(f"inference {percent(run.inference_busy)}")
    if run.learner is not None:
        parts.append(f"{run.learner.name} {percent(run.learner.busy)}")
    return ", ".join([*parts, f"all cores together {percent(run.facts.machine_busy or 0.0)}"])
