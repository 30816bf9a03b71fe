"""One among many that holds the others back: an environment, a worker, or a few of all steps."""

from __future__ import annotations

import math
from collections.abc import Collection
from statistics import median

from sample_profiler.analysis.facts import ComponentLoad, median_of_others
from sample_profiler.analysis.findings import LITTLE, MUCH, Advice, Finding, JudgedRun, percent
from sample_profiler.vocabulary import (
    ENV_RESET,
    ENV_STEP,
    SLOWEST_ENV,
    SLOWEST_ENV_RATIO,
    SLOWEST_ENV_SHARE,
    TAIL_ENV,
    TAIL_NUM_ENVS,
    TAIL_NUM_STEPS,
    TAIL_OTHER_ENV,
    TAIL_SHARE,
    TAIL_STEP_S,
    TAIL_STEPS_SHARE,
)

__all__ = ["rare_slow_steps", "slow_environment", "slow_worker"]

_SLOW_ENV_RATIO, _SLOW_ENV_SHARE = 4.0, 0.2
_SLOW_WORKER_RATIO = 1.7
_TAIL_SHARE = 0.3  # of the time in steps, in ...
_TAIL_STEPS = 0.05  # ... so few of them
_TAIL_STEP_S = 0.003  # shorter ones may be those in which another program had the processor
_FEW_OF_EACH = 3  # steps in each environment: fewer may have come to these by chance
_LEAST_LOST = 0.1  # of the wall of its worker, in the slow environment
_BUSY = 0.4  # of its wall: a worker that waits for longer is not what its environments hold up
_WORTH_NAMING = 1.05  # by which factor the run would be faster without it; below that others matter more


def rare_slow_steps(run: JudgedRun) -> Finding | None:
    """A few of all steps take much of the time, and the Learner waits for samples."""
    hindered = sorted(filter(_has_tail, run.workers), key=_lost_in_tail, reverse=True)
    if not hindered:
        return None
    worker = hindered[0]
    gauges = worker.gauges
    factor = _factor_without(run, {load.name for load in hindered}, 1 / max(1 - _lost_in_tail(worker), 0.05))
    if _is_limited_elsewhere(run, factor):
        return None
    where = _describe_tail_envs(run, worker)
    evidence = [
        f"{percent(gauges[TAIL_STEPS_SHARE])} of the steps of {worker.name} take {percent(gauges[TAIL_SHARE])} of the "
        f"time in all of them: {1000 * gauges[TAIL_STEP_S]:.0f} ms each, {where}",
        f"env_step is {percent(worker.blocks.get(ENV_STEP, 0.0))} of its time",
    ]
    if alike := sorted(load.name for load in hindered[1:]):
        evidence.append(f"workers of which the same is true: {', '.join(alike)}")
    evidence += run.describe_sleeps(worker)
    why = "all others of a group wait for it; sample-profiler capture --tool timeline shows them"
    gain = run.gain(run.room_beside_others(factor))
    advice = [Advice(f"look at what those steps do otherwise, {where}", why, gain)]
    headline = f"A few slow steps hold up the rest: {percent(gauges[TAIL_STEPS_SHARE])} of them"
    headline += f" take {percent(gauges[TAIL_SHARE])} of the time"
    return Finding("rare slow steps", worker.name, headline, evidence, advice)


def _has_tail(worker: ComponentLoad) -> bool:
    gauges = worker.gauges
    return (
        gauges.get(TAIL_SHARE, 0.0) >= _TAIL_SHARE
        and gauges.get(TAIL_STEPS_SHARE, 1.0) <= _TAIL_STEPS
        and gauges.get(TAIL_STEP_S, 0.0) >= _TAIL_STEP_S
        and _lost_in_tail(worker) >= _LEAST_LOST
        and worker.busy >= _BUSY
    )


def _lost_in_tail(worker: ComponentLoad) -> float:
    """Return which share of the wall is lost in slow steps, without what they may have waited for a processor.

    The tail is one of steps alone, without resets.
    """
    queued = worker.starved_share if worker.queued is None else worker.queued
    stepping = worker.blocks.get(ENV_STEP, 0.0) - worker.blocks.get(f"{ENV_STEP}/{ENV_RESET}", 0.0)
    return max(0.0, stepping * worker.gauges.get(TAIL_SHARE, 0.0) - queued)


def _describe_tail_envs(run: JudgedRun, worker: ComponentLoad) -> str:
    gauges = worker.gauges
    number = int(gauges.get(TAIL_NUM_ENVS, 0))
    if gauges.get(TAIL_NUM_STEPS, 0.0) >= _FEW_OF_EACH * number and number < run.num_envs:
        if number == 1:
            return f"in environment {int(gauges.get(TAIL_ENV, -1))}"
        if number == 2:
            return f"in environments {int(gauges.get(TAIL_ENV, -1))} and {int(gauges.get(TAIL_OTHER_ENV, -1))}"
    return f"in {'all' if number >= run.num_envs else number} of its {run.num_envs} environments"


def slow_environment(run: JudgedRun) -> Finding | None:
    """One environment takes many times as long as the others of its worker, and the Learner waits for samples."""
    hindered = sorted(filter(_has_slow_env, run.workers), key=_lost_in_env, reverse=True)
    if not hindered:
        return None
    worker = hindered[0]
    ratio, share = worker.gauges[SLOWEST_ENV_RATIO], worker.gauges[SLOWEST_ENV_SHARE]
    stepping = worker.blocks.get(ENV_STEP, 0.0)
    factor = _factor_without(run, {load.name for load in hindered}, _own_factor(stepping * share, ratio))
    if _is_limited_elsewhere(run, factor):
        return None
    env, *alike = (int(load.gauges.get(SLOWEST_ENV, -1)) for load in hindered)
    evidence = [
        f"its steps take {ratio:.1f} times as long as those of the {max(1, run.num_envs - 1)} others of {worker.name}",
        f"they are {percent(share)} of that worker's env_step, which is {percent(stepping)} of its time",
        *run.describe_sleeps(worker),
    ]
    change = f"look at what environment {env} does otherwise"
    if alike:
        evidence.append(f"environments that are slow in their workers, too: {', '.join(map(str, alike))}")
        change = f"look at what environments {', '.join(map(str, [env, *alike]))} do otherwise"
    advice = [Advice(change, "all others of its group wait for it", run.gain(run.room(factor)))]
    headline = f"Environment {env} is slow, and its group waits for it"
    return Finding("slow environment", worker.name, headline, evidence, advice)


def slow_worker(run: JudgedRun) -> Finding | None:
    """Environments of a worker step slower than those of the others, and the Learner waits for samples."""
    steps_s = {load.name: load.seconds_per_pass(ENV_STEP) for load in run.workers}
    load = max(run.workers, key=lambda each: steps_s[each.name], default=None)
    others_s = median_of_others(steps_s, load.name) if load else None
    if load is None or not others_s or steps_s[load.name] < _SLOW_WORKER_RATIO * others_s:
        return None
    stepping, ratio = load.blocks.get(ENV_STEP, 0.0), steps_s[load.name] / others_s
    if stepping < MUCH or load.busy < _BUSY:
        return None
    slow = {name for name, seconds in steps_s.items() if seconds >= _SLOW_WORKER_RATIO * others_s}
    factor = _factor_without(run, slow, _own_factor(stepping, ratio))
    if _is_limited_elsewhere(run, factor):
        return None
    evidence = [
        f"a step of its environments takes {1000 * steps_s[load.name]:.2f} ms, of the others {1000 * others_s:.2f} ms",
        f"env_step is {percent(stepping)} of its time",
        *run.describe_sleeps(load),
    ]
    if alike := sorted(slow - {load.name}):
        evidence.append(f"workers that are slow, too: {', '.join(alike)}")
    advice = [
        Advice(
            f"look at the core and the environments of {', '.join([load.name, *alike])}",
            "fewer samples come from there than from the others",
            run.gain(run.room(factor)),
        )
    ]
    headline = f"{load.name} steps {ratio:.1f} times as slowly as the others"
    return Finding("slow worker", load.name, headline, evidence, advice)


def _has_slow_env(worker: ComponentLoad) -> bool:
    gauges = worker.gauges
    return (
        gauges.get(SLOWEST_ENV_RATIO, 0.0) >= _SLOW_ENV_RATIO
        and gauges.get(SLOWEST_ENV_SHARE, 0.0) >= _SLOW_ENV_SHARE
        and _lost_in_env(worker) >= _LEAST_LOST
        and worker.busy >= _BUSY
    )


def _lost_in_env(worker: ComponentLoad) -> float:
    return worker.blocks.get(ENV_STEP, 0.0) * worker.gauges.get(SLOWEST_ENV_SHARE, 0.0)


def _own_factor(share: float, ratio: float) -> float:
    """Return how many times as fast a worker is for which that share of its wall takes `ratio` times less."""
    return 1 / max(1 - share * (1 - 1 / ratio), 0.05)


def _factor_without(run: JudgedRun, slow: Collection[str], own_factor: float) -> float:
    """Return how many times as fast the run is with slow workers as fast as the others, until the Learner never waits.

    A synchronous run waits for the slowest of them. Else each makes its own part, and slow ones then as much as others.

    Args:
        run: with workers.
        slow: names of those that hold it up.
        own_factor: how many times as fast the slowest of them becomes by itself.
    """
    if not run.facts.flag("async_rl", True):
        return run.learner_room(own_factor)
    makes = {load.name: run.makes_unhindered(load) for load in run.workers}
    others = [steps for name, steps in makes.items() if name not in slow]
    most = median(others) if others else math.inf
    then = sum(others) + sum(max(makes[name], min(makes[name] * own_factor, most)) for name in slow)
    made = sum(load.counts.get(ENV_STEP, 0) for load in run.workers)
    return run.learner_room(then / made if made else own_factor)


def _is_limited_elsewhere(run: JudgedRun, factor: float) -> bool:
    """Tell whether the run would be as slow without them: nobody waits for those who hold up nobody."""
    # A Learner that waits for samples waits for them, too, however busy it is, as for used-up processors.
    is_learner_alone = run.is_paced_by_learner and run.learner_waits < LITTLE
    return is_learner_alone or factor < _WORTH_NAMING
