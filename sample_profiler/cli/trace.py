"""Owns `sample-profiler trace`: blocks, counters and captures of a run's processes as one timeline."""

from __future__ import annotations

import argparse
from pathlib import Path

from sample_profiler.analysis.lives import find_lives, slowest
from sample_profiler.cli.common.arguments import Commands, add_run_dir, as_output_file, as_seconds
from sample_profiler.cli.common.problems import files_told_of, note
from sample_profiler.cli.common.progress import progress_shown
from sample_profiler.errors import SessionError
from sample_profiler.profiling.record.events import Events
from sample_profiler.profiling.tree.render import printable
from sample_profiler.reports.all_ranks import read_all_ranks
from sample_profiler.reports.sections.distance import describe_distance
from sample_profiler.reports.timeline.captured_operators import find_captures
from sample_profiler.reports.timeline.counters import run_counters
from sample_profiler.reports.timeline.timeline import Timeline
from sample_profiler.run_folder import RunFolder

__all__ = ["add_parser", "run", "trace"]

_NS_PER_S = 10**9


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "trace",
        help="write the latest events of all processes, counters and captures as one timeline for Perfetto",
        description="Write the latest events of all processes as one timeline for https://ui.perfetto.dev: of a run "
        "that goes on, hangs or was killed what its flight recorders hold, of one that has ended its last ten seconds. "
        "Throughput, policy lag, queues and memory over the whole run are counters in it, and the operators that "
        "captures with torch have left in the run's folder are beside the blocks.",
    )
    add_run_dir(parser)
    parser.add_argument(
        "-o", "--output", type=as_output_file, metavar="FILE", help="default: RUN_DIR/profile/trace.json.gz"
    )
    parser.add_argument("--seconds", type=as_seconds, help="only the last so many; default: all there is")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    trace(arguments.run_dir, arguments.output, arguments.seconds)
    return 0


def trace(run_dir: Path, output: Path | None, seconds: float | None) -> None:
    """Write a timeline for Perfetto.

    Args:
        run_dir: the run's folder; of a run that goes on, hangs or was killed, too.
        output: where to; None: `profile/trace.json.gz` in the run's folder.
        seconds: only the last so many; None: all that the flight recorders, or the session, still have.

    Raises:
        SessionError: the folder is no run's, or there are no events.
        UsageError: the trace cannot be written.
    """
    output = RunFolder(run_dir).trace if output is None else output
    with files_told_of():
        with progress_shown("reading the run"):
            session = read_all_ranks(run_dir)
        last_ns = max((Events.of(record.events).latest_ns() for record in session.processes), default=0)
        if not last_ns:
            raise SessionError(f"the processes of {run_dir} kept no events: was it run with --flight_recorder_mb=0?")
        start_ns = None if seconds is None else last_ns - round(seconds * _NS_PER_S)
        captures = find_captures(run_dir)
        timeline = Timeline(
            session.processes,
            start_ns=start_ns,
            counters=run_counters(session),
            captures=captures,
            lives=slowest(find_lives(session)),
        )
        num_events = sum(len(record.events) for record in session.processes)
        with progress_shown("writing the timeline", num_events, lambda: timeline.num_passes):
            timeline.write(output)
    if distance := describe_distance(session):
        note(f"The run is {distance}")
    for problem in session.describe_problems() + timeline.problems:
        note(problem)
    for record in session.processes:
        if record.num_events_lost:
            note(f"{printable(record.name)}: {record.num_events_lost:,} earlier events were overwritten")
    captured = f" and {len(captures)} captured trace{'s' if len(captures) > 1 else ''}" if captures else ""
    print(
        f"{printable(str(output))}: {timeline.num_passes:,} passes of {len(session.processes)} processes{captured}; "
        "open it in https://ui.perfetto.dev"
    )
