"""Owns what the kernel tells of memory: what a process has, what it may have, and whom it ended for want of it.

Linux only, through /proc and the files of control groups; elsewhere nothing is known.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from sample_profiler.profiling.process.control_groups import ControlGroup, read_number, read_quickly

__all__ = [
    *("MemoryLimit", "ProcessMemory", "available_bytes", "count_kills", "find_limit", "format_bytes"),
    "read_process_memory",
]

_PROCESSES = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_KILLS = {1: "memory.oom_control", 2: "memory.events"}
_LIMITS = {1: "memory.limit_in_bytes", 2: "memory.max"}
_USED = {1: "memory.usage_in_bytes", 2: "memory.current"}
_IDLE_FILES = {1: "total_inactive_file", 2: "inactive_file"}
_RESIDENT, _ADDRESSES, _DATA = 1, 0, 5  # places in /proc/PID/statm, in pages
_OWN_LIMITS = ((resource.RLIMIT_AS, _ADDRESSES, "addresses", "v"), (resource.RLIMIT_DATA, _DATA, "data", "d"))


@dataclass(frozen=True)
class MemoryLimit:
    """What there is, or may be, of memory.

    Attributes:
        num_bytes: at most.
        owner: whose limit it is, in words.
        used: bytes of it that were in use, as far as that is known.
    """

    num_bytes: int
    owner: str
    used: int = 0

    def describe(self) -> str:
        """Return it for people: ``2.0 GiB of this machine``."""
        return f"{format_bytes(self.num_bytes)} {self.owner}"


@dataclass(frozen=True)
class ProcessMemory:
    """What a process has at a moment.

    Attributes:
        resident: bytes that are in memory, with what it shares with others.
        limits: of its own, as `ulimit` sets them, with what it used of them; none: it has none.
    """

    resident: int
    limits: tuple[MemoryLimit, ...] = ()


def format_bytes(num_bytes: float) -> str:
    """Return an amount of memory for people: ``1.9 GiB``, ``310 MiB``."""
    return f"{num_bytes / 2**30:,.1f} GiB" if num_bytes >= 2**30 else f"{num_bytes / 2**20:.0f} MiB"


def read_process_memory(pid: int) -> ProcessMemory | None:
    """Return what a process has; None: it has ended, or the system does not tell."""
    try:
        pages = [int(word) for word in read_quickly(f"{_PROCESSES}/{pid}/statm").split()]
    except (OSError, ValueError):
        return None
    if len(pages) <= _DATA or not pages[_RESIDENT]:  # one that has ended and that nobody has waited for has none
        return None
    limits = []
    for number, place, what, flag in _OWN_LIMITS:
        try:
            soft, _ = resource.prlimit(pid, number)
        except OSError:  # gone meanwhile, or of another user
            continue
        if soft != resource.RLIM_INFINITY:
            owner = f"of {what} that the process may have (ulimit -{flag})"
            limits.append(MemoryLimit(soft, owner, pages[place] * _PAGE_BYTES))
    return ProcessMemory(pages[_RESIDENT] * _PAGE_BYTES, tuple(limits))


def find_limit(groups: Iterable[ControlGroup]) -> MemoryLimit:
    """Return the smallest limit of what processes may have together: of one of their groups, or of the machine.

    Args:
        groups: that the processes are in.
    """
    machine = MemoryLimit(_PAGE_BYTES * os.sysconf("SC_PHYS_PAGES"), "of this machine")
    limits = [machine]
    for group in groups:
        num_bytes = read_number(group.folder / _LIMITS[group.version])  # "max" is no number
        if num_bytes is not None:
            owner = f"of the control group {group.folder} (a container, a service or a job)"
            limits.append(MemoryLimit(int(num_bytes), owner))
    return min(limits, key=lambda limit: limit.num_bytes)


def available_bytes(groups: Iterable[ControlGroup]) -> float:
    """Return how much more memory processes may have together before the kernel ends one.

    Pages of files that nobody has used for a while are given up before that, so they count as free.

    Args:
        groups: that the processes are in.
    """
    left = [float(psutil.virtual_memory().available)]
    for group in groups:
        limit = read_number(group.folder / _LIMITS[group.version])  # "max" is no number
        used = read_number(group.folder / _USED[group.version])
        if limit is not None and used is not None:
            idle = read_number(group.folder / "memory.stat", _IDLE_FILES[group.version]) or 0.0
            left.append(limit - used + idle)
    return max(0.0, min(left))


def count_kills(groups: Iterable[ControlGroup]) -> dict[Path, int]:
    """Return how many processes the kernel has ended so far for want of memory, by the file that tells it.

    Args:
        groups: whose counters are read, in which the machine's own want of memory counts, too. The machine's counter,
            in which everybody's does, is read where none of them has one.
    """
    paths = [group.folder / _KILLS[group.version] for group in groups]
    counts = {path: read_number(path, "oom_kill") for path in paths}
    if all(count is None for count in counts.values()):
        counts = {(path := _PROCESSES / "vmstat"): read_number(path, "oom_kill")}
    return {path: int(count) for path, count in counts.items() if count is not None}
