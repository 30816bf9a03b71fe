"""Owns facts about the machine, and the choices that follow from them: cores and threads for each process."""

from __future__ import annotations

import ctypes
import os
import platform
import random
import sys
from dataclasses import asdict, dataclass

import numpy as np

from sample_profiler.profiling.process.machine import memory_gib, processor_name
from sample_profiler.profiling.process.usable_cores import num_usable_cores

__all__ = [
    *("Machine", "choose_cpus", "choose_inference_threads", "choose_learner_threads", "choose_training_threads"),
    "choose_worker_threads",
    *("derive_seed", "draw_seed", "keep_freed_memory"),
    *("tame_numerical_libraries", "usable_cpus"),
]

_LEAST_WORK_FOR_THREADS = 100_000_000
"""Multiplications of a minibatch, forwards, from which more threads than one are quicker."""

# Of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MMAP_THRESHOLD = 32 << 20  # the most that glibc takes
_TRIM_THRESHOLD = 1 << 30


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


def tame_numerical_libraries(num_threads: int | None = None) -> None:
    """Limit the threads of numerical libraries that this process has not loaded yet, and let idle ones sleep.

    By default OpenMP's threads spin while they wait for each other. Where another process wants the core of one of
    them, the others spin for whole time slices: a small network's step was measured to take a hundred times as long.

    Args:
        num_threads: at most; None leaves the libraries' own choice.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if num_threads is not None:
        for library in ("OMP", "MKL", "OPENBLAS"):
            os.environ[f"{library}_NUM_THREADS"] = str(num_threads)
        if "torch" in sys.modules:  # the user's main script may have imported it
            sys.modules["torch"].set_num_threads(num_threads)


def keep_freed_memory() -> None:
    """Have the C library keep freed memory for the next tensor, instead of giving it back to the system each time.

    A training step allocates and frees the same megabytes again and again. By default glibc returns them in between,
    and the system has to clear every page anew: a fifth of the time of a run with a small network.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # another C library, with other habits
    for parameter, num_bytes in ((_M_MMAP_THRESHOLD, _MMAP_THRESHOLD), (_M_TRIM_THRESHOLD, _TRIM_THRESHOLD)):
        mallopt(parameter, num_bytes)


def draw_seed() -> int:
    """Draw a seed that differs from run to run."""
    return random.SystemRandom().randrange(2**31)


def derive_seed(seed: int, *path: int) -> int:
    """Derive independent seeds, below 2**31, from the one seed of a run: one for each `path` of numbers."""
    return int(np.random.SeedSequence(seed, spawn_key=path).generate_state(1)[0]) % 2**31
