"""Owns `sample-profiler trace`: blocks, counters and captures of a run's processes as one timeline."""

from __future__ import annotations

import sys
from pathlib import Path

from sample_profiler.errors import SessionError
from sample_profiler.profiling.events import Events
from sample_profiler.profiling.render import printable, printable_text
from sample_profiler.profiling.session import read_session
from sample_profiler.reports.distance import describe_distance
from sample_profiler.reports.timeline import Timeline
from sample_profiler.reports.timeline_captures import find_captures
from sample_profiler.reports.timeline_counters import run_counters
from sample_profiler.run_folder import RunFolder

__all__ = ["trace"]

_BAD_USAGE = 2
_NS_PER_S = 10**9


def trace(run_dir: Path, output: Path | None, seconds: float | None) -> int:
    """Write a timeline for Perfetto.

    Args:
        run_dir: the run's folder; of a run that goes on, hangs or was killed, too.
        output: where to; None: `profile/trace.json.gz` in the run's folder.
        seconds: only the last so many; None: all that the flight recorders, or the session, still have.

    Returns:
        Exit status: 0; or 2: the folder is no run's, there are no events, or the trace cannot be written.
    """
    output = RunFolder(run_dir).trace if output is None else output
    try:
        session = read_session(run_dir)
        last_ns = max((Events.of(record.events).latest_ns() for record in session.processes), default=0)
        if not last_ns:
            raise SessionError(f"the processes of {run_dir} kept no events: was it run with --flight_recorder_mb=0?")
        start_ns = None if seconds is None else last_ns - round(seconds * _NS_PER_S)
        captures = find_captures(run_dir)
        timeline = Timeline(session.processes, start_ns=start_ns, counters=run_counters(session), captures=captures)
        timeline.write(output)
    except (SessionError, OSError) as error:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
        print(printable_text(f"sample-profiler trace: {reason}"), file=sys.stderr)
        return _BAD_USAGE
    if distance := describe_distance(session):
        print(printable_text(f"The run is {distance}"), file=sys.stderr)
    for problem in session.describe_problems() + timeline.problems:
        print(printable_text(problem), file=sys.stderr)
    for record in session.processes:
        if record.num_events_lost:
            lost = f"{record.num_events_lost:,} earlier events were overwritten"
            print(f"{printable(record.name)}: {lost}", file=sys.stderr)
    captured = f" and {len(captures)} captured trace{'s' if len(captures) > 1 else ''}" if captures else ""
    print(
        f"{printable(str(output))}: {timeline.num_passes:,} passes of {len(session.processes)} processes{captured}; "
        "open it in https://ui.perfetto.dev"
    )
    return 0
