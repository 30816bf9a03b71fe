"""Whether the process that wrote a record file is still there, as seen from another one of its machine."""

from __future__ import annotations

import os
import time

from sample_profiler.files import read_at_once
from sample_profiler.profiling.process.machine import host_name
from sample_profiler.profiling.record.process_record import Anchor, ProcessState

__all__ = ["PLACE", "is_of_earlier_start", "process_place", "process_state"]

PLACE = "place"
"""The entry of a record file's metadata with what `process_place` returned to its writer."""

# /proc gives the start of a process in ticks, and the writer may have read its clocks in the middle of one.
_TOLERANCE_NS = 100_000_000
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_PROCESSES = "/proc/self/ns/pid"
_STATES: dict[str, ProcessState] = {"T": "stopped", "t": "stopped", "Z": "gone", "X": "gone"}


def process_place() -> str:
    """Return where the numbers of processes mean what they mean here: a start of a machine, and a container on it.

    Empty if the system does not tell.
    """
    try:
        return f"{read_at_once(_BOOT_ID).decode().strip()} {os.readlink(_PROCESSES)}"
    except (OSError, ValueError):
        return ""


def is_of_earlier_start(host: str, place: str) -> bool:
    """Tell whether the writer of a file ran before this machine was started anew, or on another one of its name.

    Args:
        host: its machine.
        place: from its metadata; empty: it did not tell.
    """
    here = process_place()
    return bool(place and here) and host == host_name() and place.split()[0] != here.split()[0]


def process_state(pid: int, host: str, start_anchor: Anchor, place: str = "") -> ProcessState:
    """Return how the writer of a file is that has not been closed.

    A process that got the number of one that is gone is not taken for it: it started after the file was made.

    Args:
        pid: of the writer.
        host: its machine; empty: this one.
        start_anchor: when it made the file.
        place: from its metadata; empty: it did not tell, as earlier versions did not.
    """
    if host not in ("", host_name()) or (place and process_place() not in ("", place)):
        return "unknown"
    if not 0 < pid < 2**31:
        return "gone"
    try:
        # The name, in parentheses, may itself have spaces and parentheses.
        fields = read_at_once(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        state, start_ticks = fields[0].decode(), int(fields[19])
    except (FileNotFoundError, ProcessLookupError):
        return _state_without_proc(pid)
    except (OSError, IndexError, ValueError):
        return "unknown"
    boot_now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else None
    if boot_now_ns is not None and start_anchor.boot_ns:
        started_ns = start_ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        has_rebooted = boot_now_ns < start_anchor.boot_ns
        if has_rebooted or started_ns > start_anchor.boot_ns + _TOLERANCE_NS:
            return "gone"
    return _STATES.get(state, "alive")


def _state_without_proc(pid: int) -> ProcessState:
    if os.path.exists("/proc/self/stat"):
        return "gone"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return "alive"
    return "alive"
