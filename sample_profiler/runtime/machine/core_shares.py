"""Owns how processes share the cores of the machine: on which each runs, and with how many threads."""

from __future__ import annotations

from sample_profiler.profiling.process.usable_cores import num_usable_cores
from sample_profiler.runtime.machine.machine import usable_cpus

__all__ = [
    "choose_cpus",
    "choose_inference_threads",
    "choose_learner_threads",
    "choose_training_threads",
    "choose_worker_threads",
]

_LEAST_WORK_FOR_THREADS = 100_000_000
"""Multiplications of a minibatch, forwards, from which more threads than one are quicker."""


def choose_cpus(worker: int, num_workers: int) -> tuple[int, ...]:
    """Return the cores for one of `num_workers` processes that share the machine evenly.

    With fewer workers than cores each gets a block of its own; else each gets one core, in turn.
    """
    cpus = usable_cpus()
    if num_workers >= len(cpus):
        return (cpus[worker % len(cpus)],)
    begin, end = worker * len(cpus) // num_workers, (worker + 1) * len(cpus) // num_workers
    return tuple(cpus[begin:end])


def choose_learner_threads(num_learners: int) -> int:
    """Return the threads of each of `num_learners` processes: all usable cores together.

    Also where other processes want the same cores: two sleeping threads on two busy cores were measured to train 14 %
    faster than one, since the second works whenever sampling waits.
    """
    return max(1, num_usable_cores() // num_learners)


def choose_training_threads(num_multiplications: int | None) -> int:
    """Return how many threads are of use to train a network: one or all.

    Small products are finished before a second thread has woken up. With minibatches of 1,024 rows on two cores, one
    thread took 0.61 of the time of two for two layers of 64, 0.76 for 128 and 0.93 for 256. More cores than two were
    not measured.

    Args:
        num_multiplications: Of what goes through the network at once, forwards; None: not known.
    """
    is_small = num_multiplications is not None and num_multiplications < _LEAST_WORK_FOR_THREADS
    return 1 if is_small else num_usable_cores()


def choose_inference_threads(num_inference_workers: int) -> int:
    """Return the threads of each of `num_inference_workers` processes: all together at most a quarter of the cores.

    The batches of inference are small, and rollout workers want the cores at the same time.
    """
    return max(1, num_usable_cores() // (4 * num_inference_workers))


def choose_worker_threads(num_workers: int) -> int | None:
    """Return the threads of libraries in each of `num_workers` processes; None: as many as it has cores.

    Libraries look at the cores on which they may run and not at a quota: with as many threads as that, the container
    would have used it up after a fraction of each period, and nobody in it could go on.
    """
    num_cores = num_usable_cores()
    return None if num_cores == len(usable_cpus()) else max(1, num_cores // num_workers)
