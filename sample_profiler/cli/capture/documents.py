"""Owns what becomes of a capture: the parts of its processes as one document, or their events as a timeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sample_profiler.cli.capture.live import CaptureRequest, Interruption, describe_obstacle
from sample_profiler.errors import CaptureError, SessionError
from sample_profiler.profiling.captures.tools import SUFFIXES
from sample_profiler.profiling.session.session import read_session
from sample_profiler.run.commands.selection import choose_components

__all__ = ["HOW_TO_OPEN", "SPEEDSCOPE", "merge_parts", "write_timeline"]

SPEEDSCOPE = ".speedscope.json"
"""What the names of documents with call stacks end in."""

_PERFETTO = "Open it in https://ui.perfetto.dev (Open trace file)"
_PSTATS = "Open it with: python -m pstats {path}  (or snakeviz)"
_SPEEDSCOPE_APP = "Open it in https://www.speedscope.app (Browse)"
HOW_TO_OPEN = {
    "timeline": _PERFETTO,
    "torch": _PERFETTO,
    "cprofile": _PSTATS,
    "yappi": _PSTATS,
    "pyinstrument": _SPEEDSCOPE_APP,
    "memray": f"{_SPEEDSCOPE_APP}; Left Heavy is the flame graph of what it has grown by",
    "py-spy": _SPEEDSCOPE_APP,
}
"""For people, by tool."""


def merge_parts(
    tool: str, parts: Mapping[str, Path], facts: Mapping[str, Mapping[str, Any]], output: Path, run_dir: Path
) -> list[str]:
    """Make one document of the parts of a capture; return, line by line, what is missing in it.

    Args:
        tool: that wrote them.
        parts: by process.
        facts: about parts: from when to when they captured; not of all, if the run has ended.
        output: is written.
        run_dir: the run's folder.

    Raises:
        OSError: it cannot be written, or a part not read.
        ValueError: a part is not what the tool writes.
    """
    # Only now: most command lines need only one of them, and `status` none.
    from sample_profiler.reports.merged.pstats import merge_pstats
    from sample_profiler.reports.merged.speedscope import merge_speedscope
    from sample_profiler.reports.merged.traces import merge_chrome_traces

    if tool == "torch":
        windows = {name: (fact["start_ns"], fact["end_ns"]) for name, fact in facts.items()}
        return merge_chrome_traces(parts, output, read_session(run_dir, with_histograms=False).processes, windows)
    if SUFFIXES.get(tool, SPEEDSCOPE) == SPEEDSCOPE:
        merge_speedscope(parts, output)
    else:
        merge_pstats(parts, output)
    return []


def write_timeline(
    run_dir: Path,
    request: CaptureRequest,
    output: Path | None,
    interrupted: Interruption,
    on_progress: Callable[[str], None],
) -> tuple[Path, list[str]]:
    """Follow the record files of a run and write what happens as a timeline.

    Args:
        run_dir: the run's folder.
        request: for how long, and whose blocks.
        output: is written; None: a file among the captures of the run.
        interrupted: ends the timeline early once it is wanted.
        on_progress: is told the step that the capture is in, again and again: ``run``, ``stop``.

    Returns:
        Where it is and, line by line, what is in it.

    Raises:
        CaptureError: the run is not there, or has ended.
        OSError: the document cannot be written.
    """
    from sample_profiler.reports.timeline.follow import capture_timeline

    try:
        session = read_session(run_dir, with_events=False, with_histograms=False)
    except SessionError as error:
        raise CaptureError(str(error)) from error
    if obstacle := describe_obstacle(run_dir, session):
        raise CaptureError(obstacle)
    components = [component for record in session.processes for component in record.components]
    chosen = choose_components(components, request.components, request.workers)
    timeline = capture_timeline(
        run_dir,
        request.seconds,
        output,
        components=chosen,
        is_over=lambda: interrupted.is_wanted,
        on_progress=lambda _: on_progress("run"),
        on_writing=lambda: on_progress("stop"),
    )
    lines = [f"{timeline.num_passes:,} passes through blocks of {', '.join(timeline.components)}"]
    lines += [f"{name}: {num:,} events were overwritten unread" for name, num in timeline.num_lost.items()]
    return timeline.path, lines
