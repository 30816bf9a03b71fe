"""Runs one function in several processes that begin to measure at the same moment."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import TypeVar

__all__ = ["run_processes"]

_START_S = 120.0

_Task = TypeVar("_Task")


def run_processes(target: Callable[[_Task, int, Barrier], float], task: _Task, num_processes: int) -> list[float]:
    """Return what a function measures in each of several processes, by their index.

    Args:
        target: gets the task, the index of its process, and a barrier to wait at when it is ready to measure.
        task: what is measured; it is pickled.
        num_processes: at the same time.

    Raises:
        SystemExit: one of them failed.
    """
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(num_processes, timeout=_START_S), context.Queue()
    arguments = (target, task, barrier, results)
    processes = [context.Process(target=_report, args=(*arguments, index)) for index in range(num_processes)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit(f"{target.__name__}: exit codes {[process.exitcode for process in processes]}")
    return [measured for _, measured in sorted(results.get() for _ in processes)]


def _report(
    target: Callable[[_Task, int, Barrier], float],
    task: _Task,
    barrier: Barrier,
    results: Queue[tuple[int, float]],
    index: int,
) -> None:
    try:
        results.put((index, target(task, index, barrier)))
    except BaseException:
        barrier.abort()  # the others shall not wait for this one
        raise
