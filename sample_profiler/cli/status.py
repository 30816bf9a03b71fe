"""Owns `sample-profiler status`: how a run is, read from its files alone, so also of one that hangs or has ended."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sample_profiler.errors import SessionError
from sample_profiler.profiling.render import printable_text
from sample_profiler.profiling.session import read_session
from sample_profiler.reports.distance import DistantRun
from sample_profiler.reports.status import format_status

__all__ = ["status"]

_BAD_USAGE = 2
_INTERVAL_S = 1.0
_CLEAR = "\033[H\033[2J\033[3J"


def status(run_dir: Path, *, watch: bool) -> int:
    """Print how a run is.

    Args:
        run_dir: the run's folder.
        watch: whether to print it every second until the run is over or Ctrl+C.

    Returns:
        Exit status: 0; or 2: the folder is no run's.
    """
    distant = DistantRun()
    try:
        while True:
            session = read_session(run_dir, with_events=False, with_histograms=False)
            clear = _CLEAR if watch and sys.stdout is not None and sys.stdout.isatty() else ""
            print(clear + format_status(session), flush=True)
            if not watch or not distant.lives(session):
                return 0
            time.sleep(_INTERVAL_S)
            if not clear:
                print()
    except SessionError as error:
        print(printable_text(f"sample-profiler status: {error}"), file=sys.stderr)
        return _BAD_USAGE
    except KeyboardInterrupt:
        return 0
