"""Owns what a process asks of its libraries: few threads, which sleep while they wait, and memory that is kept."""

from __future__ import annotations

import ctypes
import os
import sys

__all__ = ["keep_freed_memory", "let_idle_threads_sleep", "share_gpu_memory", "tame_numerical_libraries"]

# Of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MMAP_THRESHOLD = 32 << 20  # the most that glibc takes
_TRIM_THRESHOLD = 1 << 30


def let_idle_threads_sleep() -> None:
    """Let OpenMP's threads sleep while they wait for each other, here and in processes that are started from here.

    By default they spin. Where another process wants the core of one of them, the others spin for whole time slices: a
    small network's step was measured to take a hundred times as long. OpenMP looks once, when PyTorch is imported, so
    this comes before that: for processes that are started, before they import the main module, which may import it.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def share_gpu_memory() -> None:
    """Have JAX and TensorFlow take memory of a GPU as they need it, in this process and those started from here.

    By default JAX takes three quarters of it at once, and TensorFlow all: an environment that uses one of them leaves
    none to the Learner, nor to the next worker. They look when they are imported, or first use it.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")


def tame_numerical_libraries(num_threads: int | None = None) -> None:
    """Limit what numerical libraries take that this process has not loaded yet: threads, idle ones, and a GPU's memory.

    Args:
        num_threads: at most; None leaves the libraries' own choice.
    """
    let_idle_threads_sleep()
    share_gpu_memory()
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
