"""Owns `sample-profiler capture`: a capture of a running run, shown while it goes on, as one document in the end."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from sample_profiler.cli.capture_documents import HOW_TO_OPEN, merge_parts, write_timeline
from sample_profiler.cli.live_capture import (
    CaptureOutcome,
    CaptureRequest,
    Interruption,
    capture_live,
    interruption,
)
from sample_profiler.errors import CaptureError, SampleProfilerError
from sample_profiler.profiling.captures import SUFFIXES, TOOLS
from sample_profiler.profiling.render import printable, printable_text
from sample_profiler.profiling.statistics import NS_PER_S
from sample_profiler.run_folder import RunFolder

__all__ = ["CAPTURE_TOOLS", "CaptureRequest", "capture"]

TIMELINE = "timeline"
CAPTURE_TOOLS = (TIMELINE, *TOOLS)

_BAD_USAGE = 2
_MIB = 2**20
_STEPS = {"start": "starting", "run": "capturing", "stop": "writing"}


class _NothingCapturedError(CaptureError):
    """No process has written a part.

    Args:
        outcome: of the capture.

    Attributes:
        lines: who says why.
    """

    def __init__(self, outcome: CaptureOutcome) -> None:
        reasons = dict.fromkeys(outcome.errors.values())  # most often it is the same everywhere
        super().__init__("nothing was captured: " + "; ".join(reasons))
        self.lines = [f"  {line}" for line in _describe(outcome)]


def capture(run_dir: Path, request: CaptureRequest, output: Path | None = None) -> int:
    """Capture a running run, and print where the document is, what is in it and how to open it.

    Args:
        run_dir: the run's folder.
        request: what to capture.
        output: the document; None: in the run's folder.

    Returns:
        Exit status: 0: there is a document; 2: there is none, and standard error says why.
    """
    console = Console(soft_wrap=True, highlight=False, stderr=True)
    try:
        if output is not None and output.is_dir():
            raise CaptureError(f"--output={output} is a folder: name a file in it")
        with interruption() as interrupted, _progress(console, request) as on_progress:
            document, lines = _capture(run_dir, request, output, interrupted, on_progress)
    except _NothingCapturedError as error:
        print(printable_text("\n".join(error.lines)), file=sys.stderr)
        print(printable_text(f"sample-profiler capture: {error}"), file=sys.stderr)
        return _BAD_USAGE
    except (SampleProfilerError, ValueError) as error:  # ValueError: a part is not what its tool writes
        print(printable_text(f"sample-profiler capture: {error}"), file=sys.stderr)
        return _BAD_USAGE
    except OSError as error:
        print(printable_text(f"sample-profiler capture: cannot write the document: {error}"), file=sys.stderr)
        return _BAD_USAGE
    print(f"{printable(str(document))} ({document.stat().st_size / _MIB:,.1f} MiB)")
    print(printable_text("\n".join(f"  {line}" for line in lines)))
    print(HOW_TO_OPEN[request.tool].format(path=printable(str(document))))
    return 0


def _capture(
    run_dir: Path,
    request: CaptureRequest,
    output: Path | None,
    interrupted: Interruption,
    on_progress: Callable[[str], None],
) -> tuple[Path, list[str]]:
    """Return the document and, line by line, what is in it."""
    folder = RunFolder(run_dir).captures
    if request.tool == TIMELINE:
        path = output or folder / f"{TIMELINE}_{time.strftime('%Y%m%d_%H%M%S')}.json"
        return path, write_timeline(run_dir, request, path, interrupted, lambda: on_progress("run"))
    outcome = capture_live(run_dir, request, interrupted, on_progress)
    if not outcome.parts:
        raise _NothingCapturedError(outcome)
    on_progress("stop")
    path = output or folder / (outcome.name + SUFFIXES[request.tool])
    path.parent.mkdir(parents=True, exist_ok=True)
    missing = merge_parts(request.tool, outcome.parts, outcome.facts, path, run_dir)
    for part in outcome.parts.values():
        part.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty where a part came too late
        (folder / outcome.name).rmdir()
    return path, [*_describe(outcome), *missing]


def _describe(outcome: CaptureOutcome) -> Iterator[str]:
    width = max(map(len, (*outcome.parts, *outcome.errors)))
    for process in outcome.parts:
        facts = outcome.facts.get(process)
        if facts is None:
            yield f"{process:{width}}  captured until the run ended"
        elif facts["is_empty"]:
            yield f"{process:{width}}  recorded nothing"
        else:
            yield f"{process:{width}}  {(facts['end_ns'] - facts['start_ns']) / NS_PER_S:.1f} s"
    for process, error in outcome.errors.items():
        yield f"{process:{width}}  not captured: {error}"


@contextlib.contextmanager
def _progress(console: Console, request: CaptureRequest) -> Iterator[Callable[[str], None]]:
    """Show how far the capture is: a bar in a terminal, one line elsewhere."""
    if not console.is_terminal:
        told: list[str] = []

        def tell_once(step: str) -> None:
            if not told:
                console.print(f"Capturing with {request.tool} for {request.seconds:g} s")
            told.append(step)

        yield tell_once
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True, refresh_per_second=5) as progress:
        task = progress.add_task(f"{request.tool}: starting", total=request.seconds, left="")
        started_s: list[float] = []

        def on_progress(step: str) -> None:
            if step == "run" and not started_s:
                started_s.append(time.monotonic())
            elapsed_s = min(request.seconds, time.monotonic() - started_s[0]) if started_s else 0.0
            left = f"{request.seconds - elapsed_s:.1f} s left, Ctrl+C ends it early" if step == "run" else ""
            progress.update(
                task, completed=elapsed_s, description=f"{request.tool}: {_STEPS.get(step, step)}", left=left
            )

        yield on_progress
