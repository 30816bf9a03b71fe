"""Owns how what an examination came to looks in a text."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping

from sample_profiler.doctor.findings import GRADES, Finding
from sample_profiler.doctor.measurements import Measurements, TimeSummary
from sample_profiler.doctor.process import Diagnosis

__all__ = ["format_diagnosis"]

_MIB = 2**20
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_MOST_LINES = 20


def format_diagnosis(diagnosis: Diagnosis) -> str:
    """Return what was measured and what was found, with evidence and cures."""
    lines = [f"{diagnosis.env}, examined for {diagnosis.seconds:.0f} s"]
    if diagnosis.measured is not None:
        lines += _describe_figures(diagnosis.measured, diagnosis.sleeps)
    for finding in diagnosis.findings:
        lines += ["", *_describe(finding)]
    return "\n".join([*lines, "", _count(diagnosis.findings)])


def _describe_figures(measured: Measurements, sleeps: Mapping[str, float]) -> Iterator[str]:
    yield f"  played      {measured.num_steps:,} steps, {measured.num_episodes:,} whole episodes by random actions"
    yield f"  constructor {_time(measured.constructor_ns)}, close {_time(measured.close_ns)}"
    for name, times in (("step", measured.steps), ("reset", measured.resets)):
        if times is not None:
            yield f"  {name:11} {_describe_times(times)}"
    if measured.steps is not None:
        yield f"  a step is   {_describe_use(measured, measured.steps, sleeps)}"
    if measured.memory_bytes is not None:
        per_episodes = measured.memory_bytes.per_step * measured.num_steps / max(1, measured.num_episodes) * 1000
        infos = f"infos of {measured.info_bytes:,.0f} bytes"
        yield f"  memory      {per_episodes / _MIB:+.1f} MiB in 1,000 episodes; {infos}"
    yield f"  it has      {measured.num_threads} threads and {measured.num_processes} processes of its own"
    if measured.rewards is not None:
        lowest, highest, _ = measured.rewards
        yield f"  rewards     {lowest:g} to {highest:g}"


def _describe_times(times: TimeSummary) -> str:
    half, p99, p999 = map(_time, times.percentiles_ns)
    return (
        f"{_time(times.mean_ns)}; p50 {half}, p99 {p99}, p99.9 {p999}, longest {_time(times.largest_ns)}; the slowest "
        f"1 % take {100 * times.tail_share[0]:.0f} % of the time, 0.1 % {100 * times.tail_share[1]:.0f} %"
    )


def _describe_use(measured: Measurements, times: TimeSummary, sleeps: Mapping[str, float]) -> str:
    parts = [f"{100 * times.cpu_share:.0f} % computing", f"{100 * times.wait_share:.0f} % waiting for a processor"]
    asleep = f"{100 * times.asleep_share:.0f} % asleep"
    if (total := sum(sleeps.values())) and times.asleep_share > 0.01:
        told = sorted(sleeps.items(), key=lambda item: -item[1])
        asleep += f" ({', '.join(f'{what} {100 * share / total:.0f} %' for what, share in told)})"
    parts.append(asleep)
    if measured.num_processes:
        parts.append(f"its processes use {measured.children_cpu_share:.1f} cores")
    return ", ".join(parts)


def _describe(finding: Finding) -> Iterator[str]:
    often = f" ({finding.count:,} times)" if finding.count > 1 else ""
    yield f"{finding.grade.upper()} {finding.name}: {finding.text}{often}"
    evidence = finding.evidence.splitlines()
    yield from (f"  {line}" for line in evidence[:_MOST_LINES])
    if len(evidence) > _MOST_LINES:
        yield f"  … and {len(evidence) - _MOST_LINES} lines more"
    yield from textwrap.wrap(f"→ {finding.cure}", 110, initial_indent="  ", subsequent_indent="    ")


def _count(findings: list[Finding]) -> str:
    nums = Counter(finding.grade for finding in findings)
    if not nums:
        return "Nothing was found that is wrong with it."
    told = [f"{nums[grade]} {grade}{'s' if nums[grade] > 1 else ''}" for grade in GRADES if nums[grade]]
    return ", ".join(told)


def _time(ns: float) -> str:
    for size, unit in _UNITS:
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"
