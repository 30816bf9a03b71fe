"""What is known of this machine by itself, from the standard library and what the kernel tells."""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path
from typing import Any

from sample_profiler.profiling.process.usable_cores import num_usable_cores

__all__ = ["describe_machine", "has_bf16_instructions", "host_name", "memory_gib", "processor_name"]

_CPUS = Path("/proc/cpuinfo")
_BF16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}  # the last one is Arm's
_NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")


def host_name() -> str:
    """Return the name of this machine, as record files have it."""
    return os.uname().nodename


def describe_machine() -> dict[str, Any]:
    """Return facts about this machine.

    Returns:
        `host`, `system` with its version, `processor` by its model, `num_cpus` that this process may keep busy,
        `memory_gib`, `gpus` by their models where NVIDIA's driver tells, version of `python`.
    """
    facts = {
        "host": host_name(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor_name(),
        "num_cpus": num_usable_cores(),
        "memory_gib": memory_gib(),
        "gpus": _gpu_names(),
        "python": platform.python_version(),
    }
    return {name: fact for name, fact in facts.items() if fact}


@functools.cache  # looking costs all processors something on some kernels, and it stays the same
def processor_name() -> str:
    """Return the model of the processor; where the system does not tell, its architecture."""
    return _entry_of(_CPUS, "model name") or platform.processor() or platform.machine()


def has_bf16_instructions() -> bool:
    """Return whether the processor multiplies bfloat16 by itself: AVX-512 BF16, AMX, or Arm's."""
    return not _BF16_FLAGS.isdisjoint((_entry_of(_CPUS, "flags") or _entry_of(_CPUS, "Features")).split())


def memory_gib() -> float:
    """Return the machine's memory to a tenth of a GiB, without what the kernel took for itself."""
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


@functools.cache
def _gpu_names() -> str:
    names = (_entry_of(path, "Model") for path in sorted(_NVIDIA_GPUS.glob("*/information")))
    return ", ".join(filter(None, names))


def _entry_of(path: Path, name: str) -> str:
    """Return the first entry of that name in a file of lines such as ``name : entry``; empty if there is none."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
    except OSError:
        return ""
