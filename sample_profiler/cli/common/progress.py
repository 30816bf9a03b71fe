"""Owns what a command shows that takes longer than a second: how far it is and the time left, in a terminal alone."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

__all__ = ["Course", "describe_left", "progress_shown"]

_PATIENCE_S = 1.0  # what is over sooner shows nothing, and loads no library for it
_PULSE_S = 0.2
_BAR_WIDTH = 24


class Course:
    """How far something is.

    Args:
        text: what is being done.
        total: how much there is to do, in any unit; None: nobody knows.

    Attributes:
        text: what is being done now.
        total: as given.
        share: of it that is done.
    """

    def __init__(self, text: str, total: float | None = None) -> None:
        self.text = text
        self.total = total
        self.share = 0.0
        self._began_s = self._reached_s = time.monotonic()
        self._began_at: float | None = None

    def reach(self, done: float, text: str = "") -> None:
        """Note how far it is.

        Args:
            done: in the unit of the total; what was done before the first call, by somebody earlier, tells nothing of
                how quick this is.
            text: what is being done now; empty: what was before.
        """
        self.text = text or self.text
        if self.total:
            self.share = min(1.0, done / self.total)
        self._reached_s = time.monotonic()
        if self._began_at is None:
            self._began_at, self._began_s = self.share, self._reached_s

    def left_s(self) -> float | None:
        """Return how long it will take if it goes on like this; None: nothing tells."""
        done = self.share - (self._began_at or 0.0)
        if not self.total or done <= 0:
            return None
        took_s = self._reached_s - self._began_s
        return max(0.0, took_s * (1 - self.share) / done - (time.monotonic() - self._reached_s))

    def passed_s(self) -> float:
        """Return how long it has taken so far."""
        return time.monotonic() - self._began_s


def describe_left(seconds: float | None) -> str:
    """Return a time left in words; empty: it is not known."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} left" if hours else f"{minutes}:{rest:02d} left"


@contextlib.contextmanager
def progress_shown(text: str, total: float | None = None, done: Callable[[], float] | None = None) -> Iterator[Course]:
    """Show below what is printed how far something is, from the first second on, if standard error is a terminal.

    ::

        with progress_shown("comparing", total=16) as course:
            for number in range(16):
                course.reach(number, f"run {number + 1} of 16")

    Args:
        text: what is being done.
        total: how much there is to do, in any unit; None: nobody knows, and the time that has passed is shown.
        done: tells how much of it is done, where nobody calls `Course.reach`.
    """
    course = Course(text, total)
    course.reach(0.0)
    if sys.stderr is None or not sys.stderr.isatty():
        yield course
        return
    ended = threading.Event()
    shown = threading.Thread(target=_show, args=(course, done, ended), name="progress", daemon=True)
    shown.start()
    try:
        yield course
    finally:
        ended.set()
        shown.join()


def _show(course: Course, done: Callable[[], float] | None, ended: threading.Event) -> None:
    if ended.wait(_PATIENCE_S):
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=_BAR_WIDTH),
        TextColumn("{task.fields[left]}"),
    )
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    # What is printed meanwhile stands above the bar; what somebody else reads is none of the terminal's.
    is_printed_there = sys.stdout is not None and sys.stdout.isatty()
    bar = Progress(*columns, console=console, transient=True, auto_refresh=False, redirect_stdout=is_printed_there)
    with bar:
        task = bar.add_task(course.text, total=1.0 if course.total else None, left="")
        while True:
            if done is not None:
                course.reach(done())
            left = describe_left(course.left_s()) or f"{course.passed_s():.0f} s"
            bar.update(task, completed=course.share, description=course.text, left=left)
            bar.refresh()
            if ended.wait(_PULSE_S):
                return
