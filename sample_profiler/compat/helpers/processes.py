"""Owns which cores processes of a script run on. Imports no PyTorch."""

from __future__ import annotations

import os

__all__ = ["cores_for_worker_process", "set_process_cpu_affinity"]


def cores_for_worker_process(worker_idx: int, num_workers: int, cpu_count: int) -> list[int] | None:
    """Return the cores, counted from 0, that a process has for its own.

    Of as many processes as there are cores each has one; those that are left over share all cores evenly.

    Args:
        worker_idx: Number of the process.
        num_workers: How many there are.
        cpu_count: Cores of the machine.

    Returns:
        The cores; None: they cannot be shared evenly.
    """
    if worker_idx < num_workers // cpu_count * cpu_count:
        return [worker_idx % cpu_count]
    num_each, rest = divmod(cpu_count, num_workers % cpu_count)
    first = worker_idx % cpu_count * num_each
    return None if rest else list(range(first, first + num_each))


def set_process_cpu_affinity(worker_idx: int, num_workers: int) -> None:
    """Have this process run on its cores alone, of those that it may run on; arguments as above."""
    usable = sorted(os.sched_getaffinity(0))
    if (cores := cores_for_worker_process(worker_idx, num_workers, len(usable))) is not None:
        os.sched_setaffinity(0, {usable[core] for core in cores})
