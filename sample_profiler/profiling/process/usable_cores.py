"""How many cores a process may use: those that it may run on, or as much of them as a container's quota allows for."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sample_profiler.profiling.process.control_groups import groups_of, read_number

__all__ = ["Quota", "find_quota", "num_usable_cores"]

_PERIODS = ("periods", "throttled")


@dataclass(frozen=True)
class Quota:
    """What a group of processes may use of all processors together, as Docker's --cpus and Kubernetes' limits say it.

    Attributes:
        cores: so much of their time, in cores; not always a whole number.
        used_s: seconds of processor time that the group has used so far; None: the system does not tell.
        num_periods: stretches of time in which the group wanted some, and for each of which the quota is meant.
        num_held_up: of those in which it had used the quota up, and stood still until the next one.
    """

    cores: float
    used_s: float | None
    num_periods: int = 0
    num_held_up: int = 0


def num_usable_cores() -> int:
    """Return the number of processor cores that this process may keep busy."""
    # taskset allows for fewer cores than the machine has; not every system can tell.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = find_quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota.cores)))


def find_quota() -> Quota | None:
    """Return the smallest quota among the groups that this process is in; None: there is none."""
    return min(_quotas(), key=lambda quota: quota.cores, default=None)


def _quotas() -> Iterator[Quota]:
    for group in groups_of("cpu"):
        if group.version == 2:
            quota = _quota_v2(group.folder)
        else:
            quota = _quota_v1(group.folder, group.root.parent / "cpuacct" / group.folder.relative_to(group.root))
        if quota is not None:
            yield quota


def _quota_v2(folder: Path) -> Quota | None:
    try:
        quota, period = map(float, (folder / "cpu.max").read_text().split())  # "max": no number
    except (OSError, ValueError):
        return None
    used_us = read_number(folder / "cpu.stat", "usage_usec")
    return _make_quota(quota, period, None if used_us is None else used_us / 1e6, folder)


def _quota_v1(folder: Path, account: Path) -> Quota | None:
    quota, period = read_number(folder / "cpu.cfs_quota_us"), read_number(folder / "cpu.cfs_period_us")
    used_ns = read_number(account / "cpuacct.usage")
    return _make_quota(quota, period, None if used_ns is None else used_ns / 1e9, folder)


def _make_quota(quota: float | None, period: float | None, used_s: float | None, folder: Path) -> Quota | None:
    # Version 1 says -1 where there is none.
    if not (quota and period and quota > 0 and period > 0):
        return None
    num_periods, num_held_up = (int(read_number(folder / "cpu.stat", f"nr_{what}") or 0) for what in _PERIODS)
    return Quota(quota / period, used_s, num_periods, num_held_up)
