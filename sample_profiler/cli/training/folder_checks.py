"""Owns what is looked at in a run's folder, which may come from elsewhere, before a run writes or deletes in it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from sample_profiler.config import Config
from sample_profiler.errors import ConfigError
from sample_profiler.files import find_obstacle
from sample_profiler.run_folder import RunFolder

__all__ = ["check_access", "check_links", "describe_refused", "find_link_to"]

_CURES = {
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit of open files (ulimit -n)"),
    errno.EAGAIN: "raise the limit of processes (ulimit -u, pids.max of a container), or use a smaller --num_workers",
    errno.EBADF: "leave files open that are not your own: the environment, or what it uses, has closed some of the run",
    errno.ENOMEM: "free memory, or use a smaller --num_workers",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free space, or use another --train_dir"),
}
"""Of what the system refuses, by its number."""


def check_access(config: Config) -> None:
    """Find out whether a run may do in its folder what it has to, before anything there is changed.

    Args:
        config: of the run.

    Raises:
        ConfigError: with all that is in its way: whose it is, its permissions, and the cure.
    """
    folder, behavior = config.run.folder, config.run.restart_behavior
    if behavior == "restart" and folder.exists():  # it gets another name, with all that is in it, once that is locked
        problems = [find_obstacle(folder.parent, os.W_OK | os.X_OK), find_obstacle(folder, os.R_OK | os.X_OK)]
        folders = filter(Path.is_dir, RunFolder(folder).all_checkpoints())
        problems += [find_obstacle(path, os.R_OK) for path in folders]
    else:
        problems = [find_obstacle(folder), *map(find_obstacle, _inner_folders(config))]
    log = RunFolder(folder).log
    if config.machine.log_to_file and behavior == "resume" and os.path.lexists(log) and not log.is_symlink():
        problems.append(find_obstacle(log, os.W_OK, is_folder=False))
    if problems := list(filter(None, dict.fromkeys(problems))):
        raise ConfigError(problems)


def _inner_folders(config: Config) -> Iterator[Path]:
    """Yield the folders in a run's folder that are there, and that it writes to, or empties if it is to overwrite."""
    folder, policies = RunFolder(config.run.folder), range(config.sampling.num_policies)
    checkpoints = [folder.checkpoints(policy) for policy in policies]
    inner = [
        *(folder.profile, folder.own_live.path, folder.captures),
        *(folder.summary, *map(folder.summary_of, policies)),
        *(*checkpoints, *map(folder.milestones, checkpoints)),
    ]
    removes_files = config.run.restart_behavior == "overwrite"
    for path in inner:
        # Links are refused in words of their own.
        if os.path.lexists(path) and not path.is_symlink() and (path.is_dir() or not removes_files):
            yield path


def check_links(folder: Path) -> None:
    """Refuse to go on with a run where that would write to, or delete, what is outside of its folder, or wait there.

    Files that are written as a whole replace a link of their name, so they need no look.

    Args:
        folder: of the run.

    Raises:
        ConfigError: with all links that a run would follow.
    """
    problems = [
        f"{path} is a link, and a run does not write or delete where it leads: put what is there in its place, or "
        "begin anew with --restart_behavior=restart"
        for path in _followed(RunFolder(folder))
        if path.is_symlink()
    ]
    log = RunFolder(folder).log
    if log.exists() and not log.is_file():  # a pipe would be waited for
        problems.append(f"{log} is no file but a folder, a pipe or a device, and a run writes its log there: remove it")
    if problems:
        raise ConfigError(problems)


def _followed(folder: RunFolder) -> Iterator[Path]:
    """Yield what a run appends to, and the folders that it makes files in or removes some from."""
    yield folder.log
    yield from (folder.profile, folder.own_live.path, folder.captures)
    yield folder.summary
    yield from sorted(folder.summary.glob("*"))
    for checkpoints in folder.all_checkpoints():
        yield from (checkpoints, folder.milestones(checkpoints))


def find_link_to(folder: Path, train_dir: Path) -> Path | None:
    """Return what is a link on the way from `train_dir` to a run's folder below it, that folder included."""
    train_dir = train_dir.absolute()
    names = folder.absolute().relative_to(train_dir).parts
    way = [train_dir.joinpath(*names[: number + 1]) for number in range(len(names))]
    return next(filter(Path.is_symlink, way), None)


def describe_refused(error: OSError) -> tuple[str, bool]:
    """Return what is to be told of what the system refuses, and whether that has a cure."""
    if isinstance(error.filename, str) and error.errno not in _CURES:
        obstacle = find_obstacle(Path(error.filename), os.R_OK | os.W_OK, is_folder=False)
        return obstacle or f"{error}: use another --train_dir", True
    cure = _CURES.get(error.errno or 0, "")
    return f"{error}: {cure}" if cure else str(error), bool(cure)
