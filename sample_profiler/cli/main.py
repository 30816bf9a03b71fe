"""Owns the command `sample-profiler`: which commands it has, and what becomes of their errors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from sample_profiler.cli import (
    compare,
    diff,
    enjoy,
    forecast,
    import_checkpoint,
    launch,
    report,
    status,
    trace,
    train,
    watch,
    whatif,
)
from sample_profiler.cli.capture import capture
from sample_profiler.cli.common.arguments import CommandParser
from sample_profiler.cli.common.problems import note
from sample_profiler.cli.common.statuses import BAD_USAGE, TOO_SLOW, status_of_interrupt
from sample_profiler.cli.doctor import doctor
from sample_profiler.cli.exporting import export, query
from sample_profiler.cli.playing import evaluate
from sample_profiler.cli.serving import serve
from sample_profiler.cli.tracking import track
from sample_profiler.cli.tune import tune
from sample_profiler.errors import SampleProfilerError, TooSlowError
from sample_profiler.runtime.signals.early_interrupts import interrupts_raising
from sample_profiler.runtime.signals.ending_signals import write_to_nowhere
from sample_profiler.runtime.surroundings.outputs import take_any_text
from sample_profiler.version import __version__

__all__ = ["main"]

_ADD_PARSERS = (
    capture.add_parser,
    compare.add_parser,
    diff.add_parser,
    doctor.add_parser,
    enjoy.add_parser,
    evaluate.add_parser,
    export.add_parser,
    forecast.add_parser,
    import_checkpoint.add_parser,
    launch.add_parser,
    query.add_parser,
    report.add_parser,
    serve.add_parser,
    status.add_parser,
    trace.add_parser,
    track.add_parser,
    train.add_parser,
    tune.add_parser,
    report.add_verdict_parser,
    watch.add_parser,
    whatif.add_parser,
)
"""Of each command, in the order of the help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Do what a command line asks for.

    Args:
        argv: the command line without the program's name; None: of this process.

    Returns:
        Exit status: 0: done; 1: a run is slower than it may be; 2: it cannot be done, and standard error says why; 130:
        interrupted. Those of `train`, `enjoy` and `eval` are what the functions of these names return.
    """
    take_any_text()
    parsed = argparse.Namespace(is_program=argv is None)
    arguments = _make_parser().parse_args(sys.argv[1:] if argv is None else argv, parsed)
    exit_status = 0
    try:
        with interrupts_raising():
            exit_status = _run(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()  # what cannot be written is found out here, not by Python on its way out
    except KeyboardInterrupt as error:
        return status_of_interrupt(error)
    except BrokenPipeError:  # whoever read our output has seen enough
        write_to_nowhere(1)
    except OSError as error:  # of standard output: commands have errors of their own for all others
        note(f"sample-profiler {arguments.command}: cannot write what there is to say: {error}")
        write_to_nowhere(1)
        return BAD_USAGE
    return exit_status


def _run(arguments: argparse.Namespace) -> int:
    """Run a command, and tell why if it cannot do what it is asked for."""
    try:
        exit_status: int = arguments.run(arguments)
    except SampleProfilerError as error:
        note(f"sample-profiler {arguments.command}: {error}")
        return TOO_SLOW if isinstance(error, TooSlowError) else BAD_USAGE
    except KeyboardInterrupt as error:
        if str(error):
            note(str(error))
        return status_of_interrupt(error)
    return exit_status


def _make_parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="sample-profiler",
        description="Train, watch policies play, and look into training runs, also while they go on.",
    )
    parser.add_argument("--version", action="version", version=f"sample_profiler {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add_parser in _ADD_PARSERS:
        add_parser(commands)
    return parser
