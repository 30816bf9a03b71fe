"""When this process began, and what three clocks say at one moment."""

from __future__ import annotations

import os
import time

from sample_profiler.profiling.record.process_record import Anchor

__all__ = ["anchor_now", "process_start_ns"]

_imported_ns = time.perf_counter_ns()
_NS_PER_S = 1_000_000_000


def anchor_now() -> Anchor:
    """Return this moment on the clock of blocks, on the wall's, and since the machine's start (0: unknown)."""
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0
    return Anchor(time.perf_counter_ns(), time.time_ns(), boot_ns)


def process_start_ns() -> int:
    """Return when this process started, on the clock of all blocks, to a hundredth of a second.

    Where the system does not tell, that is when this module was imported.
    """
    try:
        with open("/proc/self/stat", "rb") as file:
            # The name, in parentheses, may itself have spaces and parentheses.
            start_ticks = int(file.read().rpartition(b")")[2].split()[19])
        age_ns = anchor_now().boot_ns - start_ticks * _NS_PER_S // os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return _imported_ns
    return min(_imported_ns, time.perf_counter_ns() - age_ns) if age_ns > 0 else _imported_ns
