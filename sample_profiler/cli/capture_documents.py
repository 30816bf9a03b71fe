"""Owns what becomes of a capture: the parts of its processes as one document, or their events as a timeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sample_profiler.cli.live_capture import CaptureRequest, Interruption
from sample_profiler.components.selection import choose_components
from sample_profiler.errors import CaptureError, SessionError
from sample_profiler.profiling.session import read_live, read_session
from sample_profiler.reports.status import is_running

__all__ = ["HOW_TO_OPEN", "merge_parts", "write_timeline"]

_PERFETTO = "Open it in https://ui.perfetto.dev (Open trace file)"
_PSTATS = "Open it with: python -m pstats {path}  (or snakeviz)"
HOW_TO_OPEN = {
    "timeline": _PERFETTO,
    "torch": _PERFETTO,
    "cprofile": _PSTATS,
    "yappi": _PSTATS,
    "pyinstrument": "Open it in https://www.speedscope.app (Browse)",
}
"""For people, by tool."""


def merge_parts(tool: str, parts: Mapping[str, Path], output: Path, run_dir: Path) -> None:
    """Make one document of the parts of a capture.

    Args:
        tool: that wrote them.
        parts: by process.
        output: is written.
        run_dir: the run's folder.

    Raises:
        OSError: it cannot be written, or a part not read.
        SampleProfilerError: a part is not what the tool writes.
    """
    # Only now: most command lines need only one of them, and `status` none.
    from sample_profiler.reports import captures

    if tool == "torch":
        captures.merge_chrome_traces(parts, output, records=read_live(run_dir, with_events=False).processes)
    elif tool == "pyinstrument":
        captures.merge_speedscope(parts, output)
    else:
        captures.merge_pstats(parts, output)


def write_timeline(run_dir: Path, request: CaptureRequest, output: Path, interrupted: Interruption) -> list[str]:
    """Follow the record files of a run and write what happens as a timeline; return, line by line, what is in it.

    Raises:
        CaptureError: the run is not there, or has ended.
        OSError: the document cannot be written.
    """
    from sample_profiler.reports.timeline import capture_timeline

    try:
        session = read_session(run_dir, with_events=False, with_histograms=False)
    except SessionError as error:
        raise CaptureError(str(error)) from error
    if not is_running(session):
        raise CaptureError(f"the run in {run_dir} has ended: capture one that goes on, or start it again")
    components = [component for record in session.processes for component in record.components]
    chosen = choose_components(components, request.kinds, request.workers)
    output.parent.mkdir(parents=True, exist_ok=True)
    capture_timeline(run_dir, request.seconds, output, components=chosen)
    return [f"the blocks of {', '.join(chosen)}"]
