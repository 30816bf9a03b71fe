"""A program that records into a file, in one of several ways; tests run it and read the file from outside."""

from __future__ import annotations

import os
import sys
import time

from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile

# What the pure-Python recorder has not flushed nobody can see.
_BLOCKS_PER_FLUSH = 500


def spin(timing: Timing, file: RecordFile) -> None:
    """Enter and leave blocks for ever, as quickly as can be."""
    while True:
        for _ in range(_BLOCKS_PER_FLUSH):
            with timing.add_time("outer"), timing.add_time("inner"):
                pass
        file.flush()


def restart(timing: Timing, file: RecordFile) -> None:
    """Enter and leave blocks for ever, and begin anew again and again."""
    while True:
        for _ in range(_BLOCKS_PER_FLUSH):
            with timing.add_time("outer"), timing.add_time("inner"):
                pass
        file.flush()
        timing.restart()


def count(timing: Timing, file: RecordFile) -> None:
    """Write down how many blocks are over, after each one."""
    number = 0
    while True:
        with timing.add_time("outer"), timing.add_time("inner"):
            pass
        number += 1
        file.flush()
        os.pwrite(1, f"{number:12}".encode(), 0)


def sit(timing: Timing, file: RecordFile) -> None:
    """Sit in a block."""
    with timing.add_time("main_loop"), timing.add_time("env_step"):
        file.set_gauge("fps", 250.0)
        file.flush()
        time.sleep(600)


def main(way: str, path: str) -> None:
    """Record in one of the ways."""
    timing = Timing("Work profile")
    file = RecordFile(path, process_name="Work")
    file.attach(timing, "Work")
    {"spin": spin, "restart": restart, "sit": sit, "count": count}[way](timing, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
