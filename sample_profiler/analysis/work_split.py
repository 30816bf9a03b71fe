"""What a component did while it worked: computed, waited for a processor, or slept, and for what.

How long is of the counters that the kernel's scheduler keeps of the main thread, where components work. What it sleeps
for, no counter tells: that is of the Runner's looks, which are of all components of a kind together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sample_profiler.component_id import SLEEPERS
from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.vocabulary import LOOKS, SLEEPS, sleep_counter

__all__ = ["Sleeps", "WorkSplit", "sleeps_of", "split_work"]

Sleeps = Mapping[str, Mapping[str, float]]
"""Shares of the looks at the components of a kind in which they slept, by kind and by what for."""


@dataclass(frozen=True)
class WorkSplit:
    """The work of a component in nanoseconds: the three of them make all of it.

    Attributes:
        computing_ns: its main thread ran. What its waits take of a processor, to begin and to end, is in it.
        queued_ns: it was ready and had no processor, for others had them or a quota was used up.
        asleep_ns: it could not have gone on.
        sleeps: shares of the sleep by what it was for, as far as it was seen in those of this kind; empty: not told.
    """

    computing_ns: int
    queued_ns: int
    asleep_ns: int
    sleeps: dict[str, float] = field(default_factory=dict)


def split_work(record: ProcessRecord, work_ns: int, sleeps: Mapping[str, float]) -> WorkSplit | None:
    """Return what the main thread did in the work of the one component that its process has; None: it is not told.

    Args:
        record: of the process.
        work_ns: of the component.
        sleeps: shares of looks at components of its kind by what they slept for.
    """
    gauges = [record.gauges.get(name) for name in ("main_cpu_s", "main_run_delay_s")]
    values = [gauge.value for gauge in gauges if gauge is not None and gauge.count]
    if len(record.components) != 1 or len(values) != len(gauges) or not all(0 <= value < 1e9 for value in values):
        return None
    cpu_ns, delay_ns = (round(value * NS_PER_S) for value in values)
    computing_ns = min(work_ns, cpu_ns)
    queued_ns = min(work_ns - computing_ns, delay_ns)
    seen = sum(sleeps.values())
    shares = {what: share / seen for what, share in sleeps.items() if share} if seen else {}
    return WorkSplit(computing_ns, queued_ns, work_ns - computing_ns - queued_ns, shares)


def sleeps_of(session: Session) -> Sleeps:
    """Return what the components of a run slept for, by kind; nothing of a kind that was not looked at."""
    counts = {
        short: record.gauges[name].value
        for record in session.processes
        for name, (owner, short) in record.gauge_owners().items()
        if owner and record.gauges[name].count
    }
    shares: dict[str, dict[str, float]] = {}
    for kind in SLEEPERS:
        looks = counts.get(sleep_counter(kind, LOOKS), 0.0)
        if looks > 0:
            shares[kind] = {what: _share(counts.get(sleep_counter(kind, what), 0.0), looks) for what in SLEEPS}
    return shares


def _share(count: float, looks: float) -> float:
    return min(1.0, max(0.0, count / looks))
