"""Owns `sample-profiler track`: trackers are told of a run that has ended, was killed, or goes on."""

from __future__ import annotations

import argparse
import contextlib
import logging
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sample_profiler.cli.common.arguments import Commands, add_run_dir, as_names
from sample_profiler.cli.common.problems import note
from sample_profiler.cli.common.statuses import FAILED
from sample_profiler.cli.tracking.beside import TrackerProcesses
from sample_profiler.cli.tracking.choice import chosen_trackers
from sample_profiler.errors import UsageError
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.surroundings.folder_lock import is_locked
from sample_profiler.trackers.making import TRACKERS, describe_missing

__all__ = ["add_parser", "run", "track"]

_LOOK_INTERVAL_S = 1.0
_EXAMPLES = """\
examples:
  sample-profiler track train_dir/doom              those that the run was told of (--track, --with_wandb)
  sample-profiler track train_dir/doom mlflow       another one, or what it lacks of the run
"""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "track",
        help="tell Weights & Biases, Trackio or MLflow of a run, as --track does",
        description="Tell trackers of a run: of one that goes on until it is over, of one that has ended or was killed "
        "what they lack. Each is one run there, however often it is told of, and however often the run was resumed.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_dir(parser)
    parser.add_argument(
        "trackers", metavar="TRACKER,…", type=as_names, nargs="?", default=[], help=f"of {', '.join(TRACKERS)}"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    return 0 if track(arguments.run_dir, arguments.trackers) else FAILED


def track(run_dir: Path, trackers: Sequence[str]) -> bool:
    """Tell trackers of a run until it is over, and return whether they know all of it.

    Args:
        run_dir: the run's folder.
        trackers: their names; none: those that the run was told of.

    Raises:
        UsageError: the folder is no run's, there is no such tracker, or it is not installed.
    """
    folder = RunFolder(run_dir.absolute())
    if not (flags := folder.flag_values()):
        raise UsageError(f"{run_dir} is not the folder of a run: it has no {folder.config.name} with flags")
    names = list(trackers) or chosen_trackers(flags)
    if not names:
        raise UsageError(f"the run was told of no tracker: say which, {', '.join(TRACKERS)}")
    for name in names:
        if name not in TRACKERS:
            raise UsageError(f"there is no tracker {name!r}: there are {', '.join(TRACKERS)}")
        if missing := describe_missing(name):
            raise UsageError(missing)
    with _log_noted(), contextlib.closing(TrackerProcesses(names, folder)) as processes:
        while is_locked(folder.path) and processes.look():
            time.sleep(_LOOK_INTERVAL_S)
        return processes.finish(math.inf)


@contextlib.contextmanager
def _log_noted() -> Iterator[None]:
    """Print what the processes have logged."""

    class Notes(logging.Handler):
        """Prints records."""

        def emit(self, record: logging.LogRecord) -> None:
            """Print one."""
            note(record.getMessage())

    logger, handler = logging.getLogger("sample_profiler.cli.tracking"), Notes()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
