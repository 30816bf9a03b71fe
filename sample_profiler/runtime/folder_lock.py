"""Owns the lock that keeps two processes from writing to one folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from sample_profiler.errors import ConfigError

__all__ = ["folder_locked"]


@contextlib.contextmanager
def folder_locked(folder: Path) -> Iterator[None]:
    """Keep other processes that ask for the same lock out of a folder; the kernel lets go of it with this process.

    Args:
        folder: exists.

    Raises:
        ConfigError: another process is in it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            problem = f"another run is writing to {folder}: wait for its end, or use another --experiment"
            raise ConfigError([problem]) from None
        yield
    finally:
        os.close(descriptor)
