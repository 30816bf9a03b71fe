"""Owns the locks that keep two runs from writing to one folder.

The Runner locks the run's folder. A Learner outlives a Runner that is killed by a training step, which it saves, so it
locks the folder of its checkpoints, and who takes the run's folder waits for that.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

from sample_profiler.errors import ConfigError
from sample_profiler.files import make_folder

__all__ = ["folder_locked", "is_locked", "lock_until_exit", "stay_until_unlocked"]

logger = logging.getLogger(__name__)

_POLL_S = 0.05

_held: dict[Path, int] = {}
"""Descriptors of what this process has locked until its end; the kernel closes them."""


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
        if not _lock(descriptor):
            raise ConfigError([f"another run is writing to {folder}: wait for its end, or use another --experiment"])
        yield
    finally:
        with contextlib.suppress(OSError):  # somebody else may have closed all files of the process
            os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Tell whether a process has locked a folder, such as the Runner that of its run.

    Args:
        folder: exists.

    Raises:
        OSError: it cannot be opened.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return not _lock(descriptor)
    finally:
        os.close(descriptor)


def lock_until_exit(folder: Path, patience_s: float) -> bool:
    """Lock a folder, which is made if it is not there, for as long as this process lives.

    Args:
        folder: where it cannot be made, nothing is locked: whoever writes there will say so.
        patience_s: how long another process may still have it.

    Returns:
        Whether no other process has.
    """
    if folder in _held:
        return True
    try:
        make_folder(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return True
    if not _lock_within(descriptor, patience_s):
        os.close(descriptor)
        return False
    _held[folder] = descriptor
    return True


def stay_until_unlocked(folder: Path, patience_s: float) -> None:
    """Wait until nobody has locked a folder any more.

    Args:
        folder: exists.
        patience_s: how long that may take.

    Raises:
        ConfigError: it takes longer.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _lock(descriptor):
            return
        logger.info("The Learner of a run that was killed finishes its step in %s: waiting for it", folder)
        if not _lock_within(descriptor, patience_s):
            problem = f"the Learner of an earlier run still writes to {folder}"
            raise ConfigError([f"{problem}: wait for its end, or kill it, or use another --experiment"])
    finally:
        os.close(descriptor)


def _lock_within(descriptor: int, patience_s: float) -> bool:
    """Lock what is open there; tell whether that was possible within so long."""
    end_s = time.monotonic() + patience_s
    while not _lock(descriptor):
        if time.monotonic() >= end_s:
            return False
        time.sleep(_POLL_S)
    return True


def _lock(descriptor: int) -> bool:
    """Lock what is open there; tell whether nobody else has, or nobody can, as on some file systems."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        logger.debug("Nothing keeps two runs out of one folder on this file system: %s", error.strerror or error)
    return True
