"""Owns what takes processors away from a run: a part of the cores, and a quota as containers have it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["confined"]

_GROUPS = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000


@contextlib.contextmanager
def confined(num_cores: int, quota_cores: float) -> Iterator[None]:
    """Let this process, and what it starts, have so much of the processors; 0: all of them, and no quota.

    Raises:
        SystemExit: control groups cannot be made here.
    """
    with contextlib.ExitStack() as stack:
        if num_cores:
            cores = os.sched_getaffinity(0)
            os.sched_setaffinity(0, sorted(cores)[:num_cores])
            stack.callback(os.sched_setaffinity, 0, cores)
        if quota_cores:
            stack.enter_context(_in_quota(quota_cores))
        yield


@contextlib.contextmanager
def _in_quota(quota_cores: float) -> Iterator[None]:
    quota_us = round(quota_cores * _PERIOD_US)
    is_first_version = (_GROUPS / "cpu").is_dir()
    root = _GROUPS / "cpu" if is_first_version else _GROUPS
    group = root / f"sample_profiler_{os.getpid()}"
    try:
        group.mkdir()
        if is_first_version:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (group / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise SystemExit(f"no control group with a quota can be made: {error}: run this case as root") from error
    try:
        yield
    finally:
        (root / "cgroup.procs").write_text(str(os.getpid()))
        _remove(root, group)


def _remove(root: Path, group: Path) -> None:
    """Remove a group, and have who is left in it, such as a tracker of shared memory, go on in the one around it."""
    with contextlib.suppress(OSError):
        for pid in (group / "cgroup.procs").read_text().split():
            (root / "cgroup.procs").write_text(pid)
    group.rmdir()
