"""Owns how much the machine has worked, for whomever, and how much of it, and of its memory, this run may use."""

from __future__ import annotations

import os
from typing import Any

import psutil

from sample_profiler.profiling.process.control_groups import groups_of
from sample_profiler.profiling.process.usable_cores import Quota, find_quota, num_usable_cores
from sample_profiler.runtime.machine.machine import usable_cpus
from sample_profiler.runtime.machine.memory_limits import available_bytes
from sample_profiler.vocabulary import (
    AVAILABLE_MEMORY_MIB,
    MACHINE_BUSY_S,
    MACHINE_CORES,
    QUOTA_CORES,
    QUOTA_PERIODS,
    QUOTA_PERIODS_HELD_UP,
)

__all__ = ["MachineUse"]

_COUNTED = (MACHINE_BUSY_S, QUOTA_PERIODS, QUOTA_PERIODS_HELD_UP)
"""What the system counts since it, or the container, was started, which may be long before the run."""


class MachineUse:
    """How busy the usable cores were since this was made, how many there are, a quota of them, and free memory."""

    def __init__(self) -> None:
        self._before = _gauges_now()

    def gauges(self) -> dict[str, float]:
        """Return it by name. What the system does not tell is missing; so is a quota where there is none."""
        gauges = _gauges_now()
        return gauges | {name: gauges[name] - self._before.get(name, 0.0) for name in _COUNTED if name in gauges}


def _gauges_now() -> dict[str, float]:
    quota = find_quota()
    gauges = {MACHINE_CORES: float(os.cpu_count() or 1)}
    gauges[AVAILABLE_MEMORY_MIB] = available_bytes(groups_of("memory")) / 2**20
    if (busy_s := _machine_busy_s(quota)) is not None:
        gauges[MACHINE_BUSY_S] = busy_s
    if quota is not None:
        gauges[QUOTA_CORES] = quota.cores
        gauges[QUOTA_PERIODS], gauges[QUOTA_PERIODS_HELD_UP] = float(quota.num_periods), float(quota.num_held_up)
    return gauges


def _machine_busy_s(quota: Quota | None) -> float | None:
    """Return for how many seconds since the machine was started the usable cores have worked, for whomever.

    Time that a virtual machine was ready and had no processor is in it. In a container whose quota is less than these
    cores, it is what the container has used of it: all of the quota is all of `num_usable_cores`, also if that is one
    and a half. None: the system does not tell.
    """
    if quota is not None and quota.cores < len(usable_cpus()):
        return None if quota.used_s is None else quota.used_s * num_usable_cores() / quota.cores
    try:
        times = psutil.cpu_times(percpu=True)
        return float(sum(sum(times[cpu]) - times[cpu].idle - _not_busy(times[cpu]) for cpu in usable_cpus()))
    except (AttributeError, IndexError, OSError):
        return None


def _not_busy(times: Any) -> float:
    # Linux counts time of guests also as time of their users.
    return float(getattr(times, "iowait", 0.0) + getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0))
