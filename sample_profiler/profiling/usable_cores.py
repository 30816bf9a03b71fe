"""How many cores a process may use: those that it may run on, or as much of them as a container's quota allows for."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Quota", "find_quota", "num_usable_cores"]

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class Quota:
    """What a group of processes may use of all processors together, as Docker's --cpus and Kubernetes' limits say it.

    Attributes:
        cores: so much of their time, in cores; not always a whole number.
        used_s: seconds of processor time that the group has used so far; None: the system does not tell.
    """

    cores: float
    used_s: float | None


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
    try:
        lines = _OWN_CGROUPS.read_text().splitlines()
    except OSError:  # another system
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            # Beside groups of version 1, those of version 2 are in a folder of their own.
            for root in (_CGROUPS, _CGROUPS / "unified"):
                yield from filter(None, map(_quota_v2, _folders(root, path)))
        elif "cpu" in controllers.split(","):
            for folder in _folders(_CGROUPS / "cpu", path):
                if quota := _quota_v1(folder, _CGROUPS / "cpuacct" / folder.relative_to(_CGROUPS / "cpu")):
                    yield quota


def _folders(root: Path, path: str) -> Iterator[Path]:
    """Yield the folder of a group and those of all groups that it is in.

    A container often sees its own group as the outermost one, and its path as it is outside: then it is not there.
    """
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield root.joinpath(*parts[:length])


def _quota_v2(folder: Path) -> Quota | None:
    try:
        quota, period = map(float, (folder / "cpu.max").read_text().split())  # "max": no number
    except (OSError, ValueError):
        return None
    used_us = _number(folder / "cpu.stat", "usage_usec")
    return _make_quota(quota, period, None if used_us is None else used_us / 1e6)


def _quota_v1(folder: Path, account: Path) -> Quota | None:
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    used_ns = _number(account / "cpuacct.usage")
    return _make_quota(quota, period, None if used_ns is None else used_ns / 1e9)


def _make_quota(quota: float | None, period: float | None, used_s: float | None) -> Quota | None:
    # Version 1 says -1 where there is none.
    return Quota(quota / period, used_s) if quota and period and quota > 0 and period > 0 else None


def _number(path: Path, name: str = "") -> float | None:
    """Return the number that a file consists of, or that follows a name in one of its lines."""
    try:
        words = [line.split() for line in path.read_text().splitlines()]
        return next(float(line[-1]) for line in words if line and (line[0] == name or not name))
    except (OSError, ValueError, StopIteration):
        return None
