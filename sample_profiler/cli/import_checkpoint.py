"""Owns `sample-profiler import-checkpoint`: a run of Sample Factory becomes one of this package."""

from __future__ import annotations

import argparse
from pathlib import Path

from sample_profiler.cli.common.arguments import Commands
from sample_profiler.cli.common.problems import files_told_of, note
from sample_profiler.cli.common.progress import progress_shown

__all__ = ["add_parser", "run"]


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "import-checkpoint",
        help="make a run of this package of one of Sample Factory",
        description="Make a run of this package of one of Sample Factory 2: its options, checkpoints, best ones and "
        "milestones, of all policies, with the state of the optimizer. It then resumes and plays as any other. Files "
        "are read as data, nothing in them is executed, and they stay as they are.",
    )
    parser.add_argument("source", metavar="SRC", type=Path, help="its folder, {train_dir}/{experiment}")
    parser.add_argument("target", metavar="DST", type=Path, help="the new run's folder, which is not there yet")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    with files_told_of(), progress_shown("importing the run"):
        from sample_profiler.foreign.runs import import_run  # only now: it takes PyTorch

        imported = import_run(arguments.source, arguments.target)
    for text in imported.notes:
        note(f"Not taken over: {text}")
    for policy, frames in imported.checkpoints.items():
        print(f"Policy {policy}: trained on {frames:,} frames")
    print(f"Imported a run on {imported.env} to {imported.folder}")
    return 0
