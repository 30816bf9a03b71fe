"""What a process can tell of itself at any time: its memory, its processor time, and its waits for a processor."""

from __future__ import annotations

import resource

__all__ = ["process_gauges"]

_KIB_PER_MIB = 1024


def process_gauges() -> dict[str, float]:
    """Return the largest memory of this process, its processor time, and how long it was ready and had no processor.

    The memory is in MiB, times are in seconds. The last one is of the main thread, and missing where the kernel does
    not tell it.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    gauges = {"memory_mib": usage.ru_maxrss / _KIB_PER_MIB, "cpu_s": usage.ru_utime + usage.ru_stime}
    try:
        with open("/proc/self/schedstat", encoding="ascii") as file:
            gauges["run_delay_s"] = int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return gauges
    return gauges
