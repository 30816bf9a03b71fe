"""Owns how many files, pipes among them, this process and those that it starts may have open."""

from __future__ import annotations

import contextlib
import resource

import psutil

__all__ = ["allow_all_open_files", "allow_open_files"]


def allow_open_files(num_more: int) -> str:
    """Let this process open so many more files: its soft limit is raised where it is lower, the hard one stays.

    No further than that: programs that a worker starts may go through all numbers up to the limit.

    Args:
        num_more: beside those that are open.

    Returns:
        What is in the way; empty: nothing.
    """
    needed = psutil.Process().num_fds() + num_more
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return ""
    if hard != resource.RLIM_INFINITY and needed > hard:
        return f"it takes about {needed:,} open files, and this process may have {hard:,}"
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (OSError, ValueError) as error:
        return f"it takes about {needed:,} open files, this process may have {soft:,}, and more are refused: {error}"
    return ""


def allow_all_open_files() -> None:
    """Let this process open as many files as the hard limit allows: before its end, and where it could not even wait.

    An environment may have used up what it may open, or lowered the limit; what is saved and cleaned up needs a few.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
