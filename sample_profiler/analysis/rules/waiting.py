"""Environments that sleep in their steps: for a timer, a disk, another machine. More of them cost little processor."""

from __future__ import annotations

from statistics import fmean

from sample_profiler.analysis.findings import (
    LITTLE,
    SLEEP_WORDS,
    Advice,
    Finding,
    JudgedRun,
    describe_sleeps,
    percent,
)
from sample_profiler.component_id import ROLLOUT_WORKER
from sample_profiler.vocabulary import ENV_STEP

__all__ = ["waiting_environments"]

_LEAST = 0.2  # of their wall asleep
_LEAST_AT_DISK = 0.1  # of it, for the system's work to be that for a disk
_WORTH_TELLING = 0.05
_MUCH_OF_STEPS = 0.4  # of the time in steps, without waits for a processor
_STEPPING = 0.4  # of their wall
_MOST_TIMES = 8.0  # as many workers: what was seen says little of more
_WORTH_IT = 1.3
_LIMITED = frozenset({"disk", "network", "process", "lock"})  # what may be shared, and be all that there is


def waiting_environments(run: JudgedRun) -> Finding | None:
    """Workers sleep in the steps of their environments, nothing of theirs computes, and the Learner waits for them."""
    idle = [load.idle_share for load in run.workers]
    if run.learner_waits < LITTLE or run.stepping < _STEPPING or None in idle:
        return None
    asleep = fmean(share or 0.0 for share in idle)
    seen = run.facts.sleeps.get(ROLLOUT_WORKER, {})
    largest = max(seen, key=lambda what: seen[what], default="timer")
    # A disk is waited for in the system, which computes for it, too.
    is_at_disk = largest == "disk" and asleep >= _LEAST_AT_DISK
    system = fmean(load.system or 0.0 for load in run.workers) if is_at_disk else 0.0
    queued = fmean(load.queued or 0.0 for load in run.workers)
    if asleep + system < max(_LEAST, _MUCH_OF_STEPS * (run.stepping - queued)):
        return None
    sleeps = describe_sleeps(seen)
    evidence = [
        f"workers step environments {percent(run.stepping)} of the time, and sleep {percent(asleep)} of it: for "
        + (sleeps or "what this machine does not tell"),
        *run.describe_resets(),
        f"{run.learner.name if run.learner else 'the Learner'} waits {percent(run.learner_waits)} of the time for data",
        _describe_step(run),
    ]
    if system >= _WORTH_TELLING:
        evidence.append(f"the system computes for files and the like {percent(system)} of the time")
    if run.facts.machine_busy is not None:
        evidence.append(f"all cores together are {percent(run.facts.machine_busy)} busy")
    advice = [*_more_workers(run, is_limited=largest in _LIMITED), _no_waits(run, asleep + system)]
    what = SLEEP_WORDS[largest] if sleeps else "something that this machine does not tell"
    steps = "resets" if run.is_mostly_resetting else "steps"
    headline = f"Waiting environments are the limit: their {steps} wait for {what}"
    return Finding("waiting environments", ROLLOUT_WORKER, headline, evidence, advice)


def _describe_step(run: JudgedRun) -> str:
    step_s = fmean(load.seconds_per_pass(ENV_STEP) for load in run.workers) / run.group_envs
    return f"a step of an environment takes {1000 * step_s * (1 - run.reset_share):.1f} ms"


def _more_workers(run: JudgedRun, *, is_limited: bool) -> list[Advice]:
    """Advise as many workers as the processors and the other components have room for."""
    wanted = run.room_beside_others(run.learner_room(run.inference_room(_MOST_TIMES)))
    more = int(len(run.workers) * wanted)
    if more < _WORTH_IT * len(run.workers):
        return []
    why = "others step while one sleeps"
    if (memory_mib := max(load.gauges.get("memory_mib", 0.0) for load in run.workers)) > 0:
        why += f"; each of them takes {memory_mib:.0f} MiB"
    gain = run.gain(more / len(run.workers), 0.1 if is_limited else 0.4)
    return [Advice(f"--num_workers={more}", why, gain)]


def _no_waits(run: JudgedRun, asleep: float) -> Advice:
    factor = run.room_beside_others(run.learner_room(run.inference_room(1 / max(1 - asleep, 0.05))))
    if run.is_mostly_resetting:
        return Advice("resets that do not wait", "nothing else takes long", run.gain(factor, 0.1))
    return Advice("an environment that does not wait", "nothing else is in its steps", run.gain(factor, 0.1))
