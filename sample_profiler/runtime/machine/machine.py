"""Owns facts about the machine: what it is, which cores of it are ours, and how busy they are."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from sample_profiler.profiling.process.machine import memory_gib, processor_name
from sample_profiler.profiling.process.usable_cores import find_quota, num_usable_cores

__all__ = ["Machine", "machine_busy_s", "usable_cpus"]


@dataclass(frozen=True)
class Machine:
    """What a run ran on.

    Attributes:
        processor: its model name.
        num_cpus: that this process may keep busy.
        memory_gib: of the machine.
        system: operating system and its version.
        python: version of the interpreter.
    """

    processor: str
    num_cpus: int
    memory_gib: float
    system: str
    python: str

    @classmethod
    def this(cls) -> Machine:
        """Describe this machine."""
        return cls(
            processor=processor_name(),
            num_cpus=num_usable_cores(),
            memory_gib=memory_gib(),
            system=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the facts by name."""
        return asdict(self)


def usable_cpus() -> list[int]:
    """Return the cores that this process may run on; where it has a quota, it cannot keep all of them busy."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def machine_busy_s() -> float | None:
    """Return for how many seconds since the machine was started the usable cores have worked, for whomever.

    Time that a virtual machine was ready and had no processor is in it. In a container whose quota is less than these
    cores, it is what the container has used of it: all of the quota is all of `num_usable_cores`, also if that is one
    and a half. None: the system does not tell.
    """
    quota = find_quota()
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
