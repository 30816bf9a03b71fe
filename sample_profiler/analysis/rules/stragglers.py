"""One among many that holds the others back."""

from __future__ import annotations

from sample_profiler.analysis.facts import median_of_others
from sample_profiler.analysis.findings import MUCH, Advice, Finding, JudgedRun, percent

__all__ = ["slow_environment", "slow_worker"]

_SLOW_ENV_RATIO, _SLOW_ENV_SHARE = 4.0, 0.2
_SLOW_WORKER_RATIO = 1.7


def slow_environment(run: JudgedRun) -> Finding | None:
    """One environment takes many times as long as the others of its worker, which wait for it."""
    for worker in run.workers:
        ratio = worker.gauges.get("slowest_env_ratio", 0.0)
        share = worker.gauges.get("slowest_env_share", 0.0)
        stepping = worker.blocks.get("env_step", 0.0)
        if ratio < _SLOW_ENV_RATIO or share < _SLOW_ENV_SHARE or stepping * share < 0.1:
            continue
        env = int(worker.gauges.get("slowest_env", -1))
        num_others = max(1, run.num_envs - 1)
        without = stepping * (1 - share) + stepping * share / max(ratio, 1.0)
        factor = run.room(run.learner_room(1 / max(1 - (stepping - without), 0.05)))
        evidence = [
            f"its steps take {ratio:.1f} times as long as those of the {num_others} others of {worker.name}",
            f"they are {percent(share)} of that worker's env_step, which is {percent(stepping)} of its time",
        ]
        advice = [
            Advice(
                f"look at what environment {env} does otherwise",
                "all others of its group wait for it",
                run.gain(factor),
            )
        ]
        return Finding(
            "slow environment", worker.name, f"Environment {env} is slow, and its group waits for it", evidence, advice
        )
    return None


def slow_worker(run: JudgedRun) -> Finding | None:
    """The environments of one worker step slower than those of the others."""
    steps_s = {load.name: load.seconds_per_pass("env_step") for load in run.workers}
    slowest = max(steps_s, key=lambda name: steps_s[name], default="")
    others = median_of_others(steps_s, slowest)
    if not others:
        return None
    load = next(each for each in run.workers if each.name == slowest)
    if steps_s[slowest] < _SLOW_WORKER_RATIO * others or load.blocks.get("env_step", 0.0) < MUCH:
        return None
    ratio = steps_s[slowest] / others
    factor = run.room(run.learner_room((len(run.workers) - 1 + 1.0) / (len(run.workers) - 1 + 1 / ratio)))
    evidence = [
        f"a step of its environments takes {1000 * steps_s[slowest]:.2f} ms, of the others {1000 * others:.2f} ms",
        f"env_step is {percent(load.blocks.get('env_step', 0.0))} of its time",
    ]
    advice = [
        Advice(
            f"look at the core and the environments of {slowest}",
            "it makes fewer samples than the others",
            run.gain(factor),
        )
    ]
    return Finding(
        "slow worker", slowest, f"{slowest} steps {ratio:.1f} times as slowly as the others", evidence, advice
    )
