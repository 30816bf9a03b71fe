"""Owns what a dead process leaves behind: its own children (games) and their named shared memory.

Linux only, through /proc; elsewhere there is nothing to see and nothing is done.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
from collections.abc import Collection, Iterable
from itertools import chain
from pathlib import Path

import psutil

from sample_profiler.errors import ConfigError

__all__ = [
    "become_subreaper",
    "check_processes_shown",
    "descendants_of",
    "end_descendants",
    "end_sessions",
    "is_subreaper",
    "list_shared_memory",
    "mapped_shared_memory",
    "resign_as_subreaper",
    "unlink_unused",
]

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_SHARED_MEMORY = Path("/dev/shm")
_SHARED_MEMORY_PATH = re.compile(r"\s(/dev/shm/[^\n]+)(?<! \(deleted\))$", re.MULTILINE)


def check_processes_shown() -> None:
    """Look whether processes can be looked after.

    Raises:
        ConfigError: they cannot.
    """
    if sys.platform == "linux" and not os.path.exists("/proc/self/stat"):
        problem = "there is no /proc, by which a run looks after its processes: mount it (mount -t proc proc /proc)"
        raise ConfigError([problem])


def become_subreaper() -> None:
    """Make the orphans of this process's children its own, so that they can be found and ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def is_subreaper() -> bool:
    """Tell whether orphans below this process become its own."""
    value = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0)
    return bool(value.value)


def resign_as_subreaper() -> None:
    """Leave orphans to the system again: nobody here would take notice of their ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def end_descendants(existed_before: Collection[str]) -> None:
    """Kill everything that this process has started and unlink the shared memory that only they used.

    Args:
        existed_before: shared memory that belongs to others.
    """
    descendants = _descendants()
    names = mapped_shared_memory([os.getpid(), *(process.pid for process in descendants)])
    _kill(descendants)
    unlink_unused(names, existed_before, ignore_pid=os.getpid())


def descendants_of(children: Collection[int]) -> dict[int, set[psutil.Process]]:
    """Return what these children of this process, and theirs, have started and still runs, by child.

    One look at the system's processes for all of them: there may be many.
    """
    owners = {pid: pid for pid in children}
    found: dict[int, set[psutil.Process]] = {pid: set() for pid in children}
    for process in _descendants():  # a parent comes before its own children
        with contextlib.suppress(psutil.NoSuchProcess):
            owner = owners.get(process.ppid())
            if owner is not None and process.pid not in owners:
                owners[process.pid] = owner
                found[owner].add(process)
    return found


def _descendants() -> list[psutil.Process]:
    try:
        descendants: list[psutil.Process] = psutil.Process().children(recursive=True)
    except psutil.AccessDenied:  # /proc lists the processes of others, and does not show whose they are
        return []
    return descendants


def end_sessions(leaders: Iterable[int], others: Iterable[psutil.Process] = ()) -> set[str]:
    """Kill what is left of the sessions whose leaders were these children.

    Args:
        leaders: process numbers of the children.
        others: that they had started, in sessions of their own, and that may be gone.

    Returns:
        The shared memory that it mapped.
    """
    wanted = set(leaders)
    left = [process for process in _descendants() if _session_of(process.pid) in wanted]
    left += [process for process in others if process.is_running()]  # not another one of that number
    names = mapped_shared_memory(process.pid for process in left)
    _kill(left)
    return names


def list_shared_memory() -> frozenset[str]:
    """Return the paths of all files under /dev/shm."""
    # Not rglob: it raises where a folder of somebody else is removed meanwhile.
    return frozenset(
        os.path.join(folder, name) for folder, *entries in os.walk(_SHARED_MEMORY) for name in chain(*entries)
    )


def mapped_shared_memory(pids: Iterable[int]) -> set[str]:
    """Return the paths under /dev/shm that these processes have mapped and that nobody has unlinked."""
    names: set[str] = set()
    for pid in pids:
        try:
            # A name may be any bytes: with surrogates it is still the one to unlink.
            text = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
        except OSError:
            continue  # the process is gone, or there is no /proc
        names.update(_SHARED_MEMORY_PATH.findall(text))
    return names


def unlink_unused(names: Iterable[str], existed_before: Collection[str], ignore_pid: int | None = None) -> list[str]:
    """Unlink those files that did not exist before and that no living process maps; return which.

    A segment that existed before the run, or that somebody else still uses, belongs to somebody else. Its times could
    not tell: writing to a segment changes them.
    """
    names = [name for name in names if name not in existed_before and os.path.exists(name)]
    if not names:
        return []
    in_use = mapped_shared_memory(pid for pid in psutil.pids() if pid != ignore_pid)
    unlinked = []
    for name in names:
        if name not in in_use:
            with contextlib.suppress(OSError):  # gone meanwhile, or of another user
                os.unlink(name)
                unlinked.append(name)
    return unlinked


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=3)
