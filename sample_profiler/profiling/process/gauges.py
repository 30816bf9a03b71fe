"""What a process can tell of itself at any time: its memory, its processor time, and its waits for a processor."""

from __future__ import annotations

import os
import resource
import sys

__all__ = ["process_gauges"]

_KIB_PER_MIB = 1024
_BYTES_PER_MIB = 1024 * _KIB_PER_MIB


def process_gauges() -> dict[str, float]:
    """Return the memory of this process, its processor time, and how long it was ready and had no processor.

    The memory is in MiB: what is resident now, or, where the system does not tell that, the most it ever was; and what
    of it is the process's own, pages that were swapped out included, so that what it shares is the rest. Times
    are in seconds: of all threads, what of that was the system's, and those of the main thread by itself, where
    components work. What only the kernel's scheduler knows is missing where it does not tell it; of threads that have
    ended it is not known.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    # The kernel's own maximum is inherited at fork and exec: children would show at least what their parent had.
    memory_mib = _memory_mib()
    gauges = {
        "memory_mib": memory_mib.get("VmRSS", _most_mib(usage)),
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "system_s": usage.ru_stime,
    }
    if "RssAnon" in memory_mib:
        gauges["private_memory_mib"] = memory_mib["RssAnon"] + memory_mib.get("VmSwap", 0.0)
    times_s = {thread: times for thread in _threads() if (times := _scheduled_s(thread)) is not None}
    if times_s:
        gauges["run_delay_s"] = sum(delay_s for _, delay_s in times_s.values())
    if (main := times_s.get(str(os.getpid()))) is not None:
        gauges["main_cpu_s"], gauges["main_run_delay_s"] = main
    return gauges


def _most_mib(usage: resource.struct_rusage) -> float:
    # In KiB everywhere but on macOS, which gives bytes.
    return usage.ru_maxrss / (_BYTES_PER_MIB if sys.platform == "darwin" else _KIB_PER_MIB)


def _memory_mib() -> dict[str, float]:
    """Return the figures of the memory of this process by the kernel's names; nothing where it does not tell them."""
    try:
        with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
            fields = (line.split() for line in file)
            return {each[0][:-1]: int(each[1]) / _KIB_PER_MIB for each in fields if each[2:] == ["kB"]}
    except (OSError, ValueError):
        return {}


def _threads() -> list[str]:
    try:
        return os.listdir("/proc/self/task")
    except OSError:
        return []


def _scheduled_s(thread: str) -> tuple[float, float] | None:
    """Return for how long a thread ran, and was ready and had no processor."""
    try:
        with open(f"/proc/self/task/{thread}/schedstat", encoding="utf-8") as file:
            on_cpu_ns, delay_ns = map(int, file.read().split()[:2])
    except (OSError, ValueError):  # the thread has ended meanwhile, or the kernel does not tell
        return None
    return on_cpu_ns / 1e9, delay_ns / 1e9
