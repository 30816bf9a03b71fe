"""A run that may use less of the processors than the machine has: a quota of a container, or one core."""

from __future__ import annotations

from sample_profiler.analysis.findings import Advice, Finding, JudgedRun, percent

__all__ = ["describe_cores", "one_core", "quota"]

_HELD_UP = 0.3  # of a quota's periods: it is not for a burst now and then that the run stands still
_CERTAINTY = 0.2  # others may use the processors that the run does not


def quota(run: JudgedRun) -> Finding | None:
    """The quota of processor time is used up again and again, and all processes stand still until there is more."""
    limits = run.facts.limits
    if limits.quota_cores is None or limits.held_up < _HELD_UP:
        return None
    cores = f"{limits.quota_cores:.2g}"
    evidence = [
        f"in {percent(limits.held_up)} of its periods it was used up, and all processes stood still until the next one",
        *_describe_machine(run),
    ]
    usable = min(limits.machine_cores or 0, len(run.facts.components))  # most of what a process does is in one thread
    factor = usable / limits.quota_cores
    why = "docker --cpus, limits.cpu in Kubernetes, CPUQuota of a service"
    advice = [Advice("a larger quota", why, run.gain(factor, _CERTAINTY) if factor > 1 else None)]
    headline = f"The run may use {cores} cores (a quota of its container), and that is used up"
    return Finding("quota", "", headline, evidence, advice)


def one_core(run: JudgedRun) -> Finding | None:
    """All processes share one core, and that is busy: whatever one of them does, all others wait for it."""
    cores = run.facts.limits.machine_cores
    if run.facts.num_cores != 1 or not run.is_saturated:
        return None
    evidence = [f"it is {percent(run.facts.machine_busy or 0.0)} busy, and nothing works side by side"]
    if cores is None or cores < 2:
        return Finding("one core", "", "One core is all there is, and it is used up", evidence, [_MORE_CORES])
    evidence += _describe_machine(run)
    why = "taskset, a cpuset of its container, or a job that has asked for one"
    advice = [Advice("more of the machine's cores", why, run.gain(min(cores, len(run.facts.components)), _CERTAINTY))]
    headline = "The run may use one core, and that is used up"
    return Finding("one core", "", headline, evidence, advice)


_MORE_CORES = Advice("more cores", "all components take turns on one")


def describe_cores(run: JudgedRun) -> list[str]:
    """Tell that the machine has cores that the run may not use; nothing if it may use all."""
    cores = run.facts.limits.machine_cores
    return _describe_machine(run) if cores and run.facts.num_cores and cores > run.facts.num_cores else []


def _describe_machine(run: JudgedRun) -> list[str]:
    cores = run.facts.limits.machine_cores
    return [] if cores is None else [f"the machine has {cores} cores"]
