"""Owns `sample-profiler watch`: throughput, accounts and verdict of a run that goes on, from its record files alone."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

from sample_profiler.analysis.accounts import accounts
from sample_profiler.analysis.facts import RunFacts, run_facts
from sample_profiler.analysis.learning.verdict import judge_learning
from sample_profiler.analysis.rules.enough_data import MIN_DATASETS, MIN_SECONDS
from sample_profiler.analysis.trends.trends import find_trends
from sample_profiler.analysis.verdict import Advice, Verdict, judge
from sample_profiler.analysis.window import window
from sample_profiler.cli.common.arguments import Commands, add_run_dir, as_seconds
from sample_profiler.errors import SessionError
from sample_profiler.profiling.session.session import Session, read_live, read_session
from sample_profiler.profiling.tree.render import printable, printable_text
from sample_profiler.reports.sections.accounts import format_accounts
from sample_profiler.reports.sections.distance import DistantRun, describe_distance, is_running
from sample_profiler.reports.sections.learning import format_learning
from sample_profiler.reports.sections.tables import format_duration
from sample_profiler.reports.sections.trends import format_trends
from sample_profiler.reports.sections.verdict import format_verdict

__all__ = ["add_parser", "run", "watch"]

_FULL = 0.95  # of a window: its readings are some moments late or early
_SPARE = 1.5  # times the datasets that a verdict takes: a window holds one more or less
_CLEAR, _HOME, _END_OF_LINE, _BELOW = "\033[2J", "\033[H", "\033[K", "\033[J"


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "watch",
        help="show throughput, accounts and verdict of a run while it goes on",
        description="Show throughput, where the time goes and what limits a run while it goes on. Reads its record "
        "files alone.",
    )
    add_run_dir(parser)
    parser.add_argument("--window", type=as_seconds, default=15.0, help="about the latest so many seconds; default: 15")
    parser.add_argument("--interval", type=as_seconds, default=2.0, help="seconds between two looks; default: 2")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    watch(arguments.run_dir, arguments.window, arguments.interval)
    return 0


def watch(run_dir: Path, window_s: float, interval_s: float) -> None:
    """Print how a run goes, again and again, until it is over or Ctrl+C.

    Args:
        run_dir: the run's folder.
        window_s: everything shown is about so many seconds before now.
        interval_s: between two prints.

    Raises:
        SessionError: the folder is no run's, or the run is over.
    """
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    show = _show_in_place if is_terminal else _show_below
    readings: deque[Session] = deque()
    distant = DistantRun()
    has_looked = has_shown = False
    try:
        while True:
            session = read_live(run_dir, with_events=False, with_histograms=False)
            if not distant.lives(session):
                _conclude(run_dir, session, was_watched=has_looked or has_shown)
                return
            has_looked |= is_running(session)
            # Without gauges the run is about to begin: there is nothing yet that throughput could be counted from.
            if any(record.gauges for record in session.processes):
                readings.append(session)
            while len(readings) > 2 and readings[1].created_s <= session.created_s - window_s:
                readings.popleft()
            if len(readings) > 1:
                view = _describe(run_dir, window(session, readings[0]), window_s, describe_distance(session))
                show(printable_text(view), is_first=not has_shown)
                has_shown = True
            time.sleep(interval_s)
    except KeyboardInterrupt:
        return


def _show_in_place(text: str, *, is_first: bool) -> None:
    """Write over what was shown before: nothing flickers, and what was above in the terminal's history stays."""
    # A taller text would scroll, and each one would stay; the end is what can be spared.
    lines = text.splitlines()[: max(1, shutil.get_terminal_size().lines - 1)]
    screen = "".join(f"{line}{_END_OF_LINE}\n" for line in lines)
    print(f"{_CLEAR if is_first else ''}{_HOME}{screen}{_BELOW}", end="", flush=True)


def _show_below(text: str, *, is_first: bool) -> None:
    print(text if is_first else f"\n{text}", flush=True)


def _conclude(run_dir: Path, session: Session, *, was_watched: bool) -> None:
    """Say that the run is over, as far as can be told from here.

    Raises:
        SessionError: nothing was shown, or it is no run.
    """
    distance = describe_distance(session)
    over = f"over, or does not get here any more ({distance})" if distance else "over"
    if was_watched:
        print(printable(f"The run is {over}: sample-profiler report {run_dir} shows all of it"))
        return
    read_session(run_dir, with_events=False, with_histograms=False)
    raise SessionError(f"the run in {run_dir} is {over}: sample-profiler report {run_dir} shows what it did")


def _describe(run_dir: Path, steady: Session, window_s: float, distance: str) -> str:
    facts = run_facts(steady)
    parts = [run_dir.resolve().name, f"the last {format_duration(facts.seconds)}"]
    if facts.fps is not None:
        parts.append(f"{facts.fps:,.0f} frames/s")
    if facts.machine_busy is not None:
        parts.append(f"{facts.num_cores} cores {100 * facts.machine_busy:.0f} % busy")
    if distance:
        parts.append(distance)
    verdict = format_verdict(_judge(facts, window_s))
    told = {
        "Verdict": verdict,
        "What changed over time": format_trends(find_trends(steady)),
        "What keeps it from learning": format_learning(judge_learning(steady)),
    }
    sections = [f"{title}: {text}" for title, text in told.items() if text]
    return "\n\n".join([", ".join(parts), *sections, format_accounts(accounts(steady))])


def _judge(facts: RunFacts, window_s: float) -> Verdict:
    """Return the verdict on a window; one with too little to judge has to be longer, not the run, which goes on."""
    verdict = judge(facts)
    if verdict.cause != "not enough data" or not verdict.advice:
        return verdict
    return replace(verdict, advice=(_longer_window(facts, window_s),))


def _longer_window(facts: RunFacts, window_s: float) -> Advice:
    if facts.seconds < _FULL * window_s:
        return Advice("some patience", f"of the {window_s:g} s that --window asks for, not all have gone by yet")
    dataset_s = facts.seconds / max(1, facts.num_datasets)
    seconds = max(MIN_SECONDS + 1, _SPARE * MIN_DATASETS * dataset_s)
    takes = f"takes {dataset_s:.1f} s" if facts.num_datasets else f"takes more than {dataset_s:.0f} s"
    why = f"a verdict takes {MIN_SECONDS:.0f} s and {MIN_DATASETS} datasets, and one {takes} here"
    return Advice(f"--window={math.ceil(seconds)}", why)
