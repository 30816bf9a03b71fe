"""Owns how a command tells of problems: on standard error, as a terminal may show it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from sample_profiler.errors import UsageError
from sample_profiler.profiling.tree.render import printable_text

__all__ = ["describe_os_error", "files_told_of", "note"]


def note(text: str) -> None:
    """Print on standard error: what went wrong, or what is to be known of what standard output says."""
    print(printable_text(text), file=sys.stderr, flush=True)


def describe_os_error(error: OSError) -> str:
    """Return what the system refuses, and of which file if it says so."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


@contextlib.contextmanager
def files_told_of() -> Iterator[None]:
    """Have files that cannot be read or written told of by their names.

    Not those of standard output, which is no file of a command: print outside of this.

    Raises:
        UsageError: the system refuses something of a file.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(describe_os_error(error)) from error
