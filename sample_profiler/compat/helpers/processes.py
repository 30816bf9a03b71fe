"""Owns how a script starts processes of its own, and which cores they run on. Imports no PyTorch."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import nullcontext
from multiprocessing.context import BaseContext
from typing import Any

__all__ = ["cores_for_worker_process", "get_lock", "get_mp_ctx", "get_mp_lock", "set_process_cpu_affinity"]


def get_mp_ctx(serial: bool) -> BaseContext | None:
    """Return what starts processes anew, as those of a run are started; None: there are none."""
    return None if serial else multiprocessing.get_context("spawn")


def get_mp_lock(mp_ctx: BaseContext | None = None) -> Any:
    """Return a new lock for processes of a context; None: of the default one."""
    return (mp_ctx or multiprocessing.get_context()).Lock()


def get_lock(serial: bool = False, mp_ctx: BaseContext | None = None) -> Any:
    """Return a new lock for processes of a context or, where there is but one, what can be taken again and again."""
    return _NoLock() if serial else get_mp_lock(mp_ctx)


class _NoLock(nullcontext[None]):
    def acquire(self, *_: Any, **__: Any) -> bool:
        return True

    def release(self) -> None:
        pass


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
