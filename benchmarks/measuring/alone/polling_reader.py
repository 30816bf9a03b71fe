"""A process that reads the record files of a folder again and again, from a line "on" on standard input to "off"."""

from __future__ import annotations

import argparse
import contextlib
import select
import sys
import time
from pathlib import Path

from sample_profiler.errors import RecordError
from sample_profiler.profiling.record.reader import EventFollower, read_record_file
from sample_profiler.run_folder import LiveFolder


def main() -> None:
    """Read until the standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hertz", type=float, default=2.0)
    parser.add_argument("--with_events", action="store_true")
    options = parser.parse_args()
    followers: dict[Path, EventFollower] = {}
    is_on, next_s = False, time.monotonic()
    while True:
        timeout_s = max(0.0, next_s - time.monotonic()) if is_on else None
        if select.select([sys.stdin], [], [], timeout_s)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            is_on, next_s = line.strip() == "on", time.monotonic()
            continue
        next_s = time.monotonic() + 1.0 / options.hertz
        for path in LiveFolder(options.folder).records():
            with contextlib.suppress(OSError, RecordError):  # files come and go with their processes
                read_record_file(path, with_histograms=False)
                if options.with_events:
                    if path not in followers:
                        followers[path] = EventFollower(path)
                    followers[path].poll()


if __name__ == "__main__":
    main()
