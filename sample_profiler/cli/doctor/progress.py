"""Owns what is shown while an environment is examined: one line in a terminal, nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from sample_profiler.doctor.position import Place

__all__ = ["progress_shown"]


@contextlib.contextmanager
def progress_shown() -> Iterator[Callable[[Place], None]]:
    """Show on standard error where an examination is; yields what is told, again and again."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal or sys.stderr is None:
        yield lambda _: None
        return
    with console.status("examining") as status:
        yield lambda place: status.update(f"examining: {place}")
