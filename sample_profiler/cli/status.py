"""Owns `sample-profiler status`: how a run is, read from its files alone, so also of one that hangs or has ended."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from sample_profiler.cli.common.arguments import Commands, add_run_dir
from sample_profiler.cli.common.progress import progress_shown
from sample_profiler.reports.all_ranks import read_all_ranks
from sample_profiler.reports.sections.distance import DistantRun
from sample_profiler.reports.status import format_status

__all__ = ["add_parser", "run", "status"]

_INTERVAL_S = 1.0
_CLEAR = "\033[H\033[2J\033[3J"

_EXAMPLES = """\
examples:
  sample-profiler status train_dir/doom             how the run is now, or was at its end
  sample-profiler status train_dir/doom --watch     the same every second, until it ends or Ctrl+C

It reads the run's files alone, so it answers for a run that hangs or was killed, too.
"""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "status",
        help="show what every component of a run does and waits for",
        description="Show what every component of a run does and waits for.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_dir(parser)
    parser.add_argument("--watch", action="store_true", help="again every second, until the run ends or Ctrl+C")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    status(arguments.run_dir, watch=arguments.watch)
    return 0


def status(run_dir: Path, *, watch: bool) -> None:
    """Print how a run is.

    Args:
        run_dir: the run's folder.
        watch: whether to print it every second until the run is over or Ctrl+C.

    Raises:
        SessionError: the folder is no run's.
    """
    distant = DistantRun()
    try:
        while True:
            with progress_shown("reading the run"):
                session = read_all_ranks(run_dir, with_events=False, with_histograms=False)
            clear = _CLEAR if watch and sys.stdout is not None and sys.stdout.isatty() else ""
            print(clear + format_status(session), flush=True)
            if not watch or not distant.lives(session):
                return
            time.sleep(_INTERVAL_S)
            if not clear:
                print()
    except KeyboardInterrupt:
        return
