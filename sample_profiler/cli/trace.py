"""Owns `sample-profiler trace`: the latest events of a run's processes as one timeline."""

from __future__ import annotations

import sys
from pathlib import Path

from sample_profiler.errors import SessionError
from sample_profiler.profiling.session import read_session
from sample_profiler.reports.timeline import write_timeline

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
    output = run_dir / "profile" / "trace.json.gz" if output is None else output
    try:
        session = read_session(run_dir)
        last_ns = max((event.start_ns for record in session.processes for event in record.events), default=None)
        if last_ns is None:
            raise SessionError(f"the processes of {run_dir} kept no events: was it run with --flight_recorder_mb=0?")
        start_ns = None if seconds is None else last_ns - round(seconds * _NS_PER_S)
        num_passes = write_timeline(session.processes, output, start_ns=start_ns)
    except (SessionError, OSError) as error:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
        print(f"sample-profiler trace: {reason}", file=sys.stderr)
        return _BAD_USAGE
    for record in session.processes:
        if record.num_events_lost:
            print(f"{record.name}: {record.num_events_lost:,} earlier events were overwritten", file=sys.stderr)
    print(f"{output}: {num_passes:,} passes of {len(session.processes)} processes; open it in https://ui.perfetto.dev")
    return 0
