"""Owns `sample-profiler watch`: throughput, accounts and verdict of a run that goes on, from its record files alone."""

from __future__ import annotations

import sys
import time
from collections import deque
from pathlib import Path

from sample_profiler.analysis.accounts import accounts
from sample_profiler.analysis.facts import run_facts
from sample_profiler.analysis.verdict import judge
from sample_profiler.analysis.window import window
from sample_profiler.errors import SessionError
from sample_profiler.profiling.session import Session, read_live, read_session
from sample_profiler.reports.accounts import format_accounts
from sample_profiler.reports.status import is_running
from sample_profiler.reports.tables import format_duration
from sample_profiler.reports.verdict import format_verdict

__all__ = ["watch"]

_BAD_USAGE = 2
_CLEAR = "\033[H\033[2J\033[3J"


def watch(run_dir: Path, window_s: float, interval_s: float) -> int:
    """Print how a run goes, again and again, until it is over or Ctrl+C.

    Args:
        run_dir: the run's folder.
        window_s: everything shown is about so many seconds before now.
        interval_s: between two prints.

    Returns:
        Exit status: 0; or 2: the folder is no run's, or the run is over.
    """
    clear = _CLEAR if sys.stdout.isatty() else ""
    readings: deque[Session] = deque()
    try:
        while True:
            session = read_live(run_dir, with_events=False, with_histograms=False)
            if not is_running(session):
                return _conclude(run_dir, has_shown=bool(readings))
            readings.append(session)
            while len(readings) > 2 and readings[1].created_s <= session.created_s - window_s:
                readings.popleft()
            if len(readings) > 1:
                print(clear + _describe(run_dir, window(session, readings[0])), flush=True)
                if not clear:
                    print()
            time.sleep(interval_s)
    except KeyboardInterrupt:
        return 0


def _conclude(run_dir: Path, *, has_shown: bool) -> int:
    if has_shown:
        print(f"The run is over: sample-profiler report {run_dir} shows all of it")
        return 0
    try:
        read_session(run_dir, with_events=False, with_histograms=False)
        problem = f"the run in {run_dir} is over: sample-profiler report {run_dir} shows what it did"
    except SessionError as error:
        problem = str(error)
    print(f"sample-profiler watch: {problem}", file=sys.stderr)
    return _BAD_USAGE


def _describe(run_dir: Path, steady: Session) -> str:
    facts = run_facts(steady)
    parts = [run_dir.resolve().name, f"the last {format_duration(facts.seconds)}"]
    if facts.fps is not None:
        parts.append(f"{facts.fps:,.0f} frames/s")
    if facts.machine_busy is not None:
        parts.append(f"{facts.num_cores} cores {100 * facts.machine_busy:.0f} % busy")
    return f"{', '.join(parts)}\n\n{format_accounts(accounts(steady))}\n\nVerdict: {format_verdict(judge(facts))}"
