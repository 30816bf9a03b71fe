"""Owns what is looked at in a run's folder, which may come from elsewhere, before a run writes or deletes in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sample_profiler.errors import ConfigError

__all__ = ["LOG", "check_links", "find_link_to"]

LOG = "log.txt"


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
        for path in _followed(folder)
        if path.is_symlink()
    ]
    log = folder / LOG
    if log.exists() and not log.is_file():  # a pipe would be waited for
        problems.append(f"{log} is no file but a folder, a pipe or a device, and a run writes its log there: remove it")
    if problems:
        raise ConfigError(problems)


def _followed(folder: Path) -> Iterator[Path]:
    """Yield what a run appends to, and the folders that it makes files in or removes some from."""
    yield folder / LOG
    yield from (folder / "profile", folder / "profile" / "live", folder / "profile" / "captures")
    yield folder / "summary"
    yield from sorted(folder.glob("summary/*"))
    for checkpoints in sorted(folder.glob("checkpoint_p*")):
        yield from (checkpoints, checkpoints / "milestones")


def find_link_to(folder: Path, train_dir: Path) -> Path | None:
    """Return what is a link on the way from `train_dir` to a run's folder below it, that folder included."""
    names = folder.relative_to(train_dir).parts
    way = [train_dir.joinpath(*names[: number + 1]) for number in range(len(names))]
    return next(filter(Path.is_symlink, way), None)
