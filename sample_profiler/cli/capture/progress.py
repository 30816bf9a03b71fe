"""Owns what is shown of a capture while it goes on: a bar in a terminal, one line elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from sample_profiler.cli.capture.live import CaptureRequest

__all__ = ["progress_shown"]

_STEPS = {"start": "starting", "run": "capturing", "stop": "writing"}


@contextlib.contextmanager
def progress_shown(request: CaptureRequest) -> Iterator[Callable[[str], None]]:
    """Show on standard error how far a capture is; yields what is told its step, again and again."""
    console = Console(soft_wrap=True, highlight=False, stderr=True)
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
