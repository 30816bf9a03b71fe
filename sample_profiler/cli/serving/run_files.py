"""Owns which files of a folder of runs the live page reads: none that a link leads to elsewhere."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from sample_profiler.errors import SessionError
from sample_profiler.run_folder import LiveFolder, RunFolder

__all__ = ["Document", "FoundRuns", "RunFiles", "documents_of", "find_runs", "open_inside", "read_log_end"]

_MOST_LEVELS = 3  # experiments may have names such as doom/first
_MOST_RUNS = 2000
_LOG_BYTES = 1 << 16
_LOG_LINES = 40
_MOST_DOCUMENTS = 30
_MARKS = (os.fspath(RunFolder(Path()).config), os.fspath(RunFolder(Path()).profile))  # of a run, in its folder
Stamp = tuple[str, int, int]
"""Of a file: its path, when it was last written and how long it is."""


@dataclass(frozen=True)
class Document:
    """Something of a run that a browser may have.

    Attributes:
        name: as it is asked for.
        path: of the file.
        num_bytes: of it.
        written_s: when, in seconds since 1970.
    """

    name: str
    path: Path
    num_bytes: int
    written_s: float


@dataclass
class FoundRuns:
    """The runs below a folder.

    Attributes:
        paths: their folders, by name.
        remarks: on what else may be there, a sentence each.
    """

    paths: dict[str, Path] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def find_runs(train_dir: Path) -> FoundRuns:
    """Find the runs below a folder; if that is itself one, only it. Links are not followed."""
    if _is_run(os.fspath(train_dir)):
        return FoundRuns({train_dir.resolve().name: train_dir})
    found = FoundRuns()
    num_nameless = 0
    try:
        os.scandir(train_dir).close()
    except OSError as error:
        found.remarks.append(f"{train_dir} cannot be read: {error.strerror}.")
    for name, path in _runs_below(os.fspath(train_dir), "", _MOST_LEVELS):
        if not name.isprintable():  # it is no text, or none that a page could show as it is
            num_nameless += 1
        elif len(found.paths) == _MOST_RUNS:
            found.remarks.append(f"These are {_MOST_RUNS:,} runs, and there are more: serve a folder in this one.")
            break
        else:
            found.paths[name] = _path_of(path)
    if num_nameless:
        found.remarks.append(f"Runs that are left out, since no page can show their names: {num_nameless:,}.")
    return found


def _runs_below(folder: str, prefix: str, levels: int) -> Iterator[tuple[str, str]]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:  # somebody else's, or removed just now
        return
    for name in names:
        path = os.path.join(folder, name)  # of many runs, again and again: a Path takes ten times as long
        if _is_run(path):
            yield prefix + name, path
        elif levels > 1:
            yield from _runs_below(path, f"{prefix}{name}/", levels - 1)


_path_of = lru_cache(_MOST_RUNS)(Path)  # at each look the same


def _is_run(path: str) -> bool:
    return any(os.path.lexists(os.path.join(path, mark)) for mark in _MARKS)


class RunFiles:
    """The files of a run that tell, by when they were written, whether it has changed.

    That is asked of every run of a folder again and again: so paths are put together once, and config.json, which says
    where the record files are, is read when that has changed.

    Args:
        path: the run's folder.
    """

    def __init__(self, path: Path) -> None:
        self._folder = RunFolder(path)
        self._config = os.fspath(self._folder.config)
        folders = (self._folder.profile, self._folder.captures)
        files = (self._folder.session, self._folder.steady, self._folder.history, self._folder.log)
        self._others = [os.fspath(each) for each in (*folders, *files)]
        self._configured: Stamp | None = None
        self._live: LiveFolder | None = None

    def fingerprint(self) -> tuple[Stamp, ...]:
        """Return what is another once one of them has changed.

        Raises:
            SessionError: one of the files, or a folder that they or captures are in, is a link, a device, or cannot be
                looked at.
        """
        configured = _stamp(self._config)
        if self._live is None or configured != self._configured:
            self._live, self._configured = self._folder.live(), configured
        stamps = [configured, *map(_stamp, self._others)]
        if live := _stamp(os.fspath(self._live.path)):
            stamps += [live, *(_stamp(os.fspath(record)) for record in self._live.records())]
        return tuple(filter(None, stamps))


def _stamp(path: str) -> Stamp | None:
    """Return what tells whether a file has changed; None: there is none."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SessionError(f"{path} cannot be looked at: {error.strerror}") from None
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise SessionError(f"{path} is a link or a device, and only files of the run's own folder are read here")
    return path, status.st_mtime_ns, status.st_size


def open_inside(folder: Path, path: Path) -> int:
    """Open a file for reading and return its descriptor.

    Raises:
        OSError: it cannot be read, is no file, or lies elsewhere than in the folder, by whatever links.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        # Not the name but what was opened: a link may have been put in the way meanwhile.
        place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if not place.is_relative_to(folder.resolve()) or not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no file in {folder}")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_log_end(path: Path) -> str:
    """Return the last lines of a run's log; empty if there is none that may be read."""
    try:
        descriptor = open_inside(path, RunFolder(path).log)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        file.seek(max(0, os.fstat(descriptor).st_size - _LOG_BYTES))
        text = file.read(_LOG_BYTES).decode(errors="replace")
    return "\n".join(text.splitlines()[-_LOG_LINES:])


def documents_of(path: Path) -> dict[str, Document]:
    """Return the timelines, captures and videos of a run, by name, the latest first."""
    folder = RunFolder(path)
    candidates = [folder.timeline, folder.trace, *(folder.replay.with_suffix(ending) for ending in (".mp4", ".gif"))]
    if not folder.captures.is_symlink() and not folder.profile.is_symlink():
        with contextlib.suppress(OSError):
            candidates += [folder.captures / name for name in os.listdir(folder.captures)]
    found = []
    for candidate in candidates:
        try:
            status = candidate.lstat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            found.append(Document(candidate.name, candidate, status.st_size, status.st_mtime))
    found.sort(key=lambda document: -document.written_s)
    return {document.name: document for document in found[:_MOST_DOCUMENTS]}
