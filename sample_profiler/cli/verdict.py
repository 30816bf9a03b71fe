"""Owns `sample-profiler verdict`: what limits a run, what changed over its time, and what keeps it from learning."""

from __future__ import annotations

import argparse
from pathlib import Path

from sample_profiler.cli.common.arguments import Commands, add_run_dir
from sample_profiler.reports.run_report.loading import load_report
from sample_profiler.reports.run_report.text import format_verdicts

__all__ = ["add_parser", "run", "verdict"]

_EXAMPLES = """\
examples:
  sample-profiler verdict train_dir/doom     what limits it, since when, and what keeps it from learning

The same is at the end of the log and at the top of the report. It reads the run's files alone.
"""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "verdict",
        help="say what limits a run, what changed over its time, and what keeps it from learning",
        description="Say what limits a run, what changed over its time, and what keeps it from learning.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_dir(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    verdict(arguments.run_dir)
    return 0


def verdict(run_dir: Path) -> None:
    """Print the verdicts on a run.

    Raises:
        SessionError: the folder is no run's.
    """
    print(format_verdicts(load_report(run_dir)))
