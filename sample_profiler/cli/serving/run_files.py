"""Owns which files of a folder of runs the live page reads: none that a link leads to elsewhere."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sample_profiler.errors import SessionError
from sample_profiler.run_folder import RunFolder

__all__ = ["Document", "documents_of", "find_runs", "fingerprint", "open_inside", "read_log_end"]

_MOST_LEVELS = 3  # experiments may have names such as doom/first
_MOST_RUNS = 2000
_LOG_BYTES = 1 << 16
_LOG_LINES = 40
_MOST_DOCUMENTS = 30
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


def find_runs(train_dir: Path) -> dict[str, Path]:
    """Return the folders of the runs below a folder, by name; if that is itself one, only it.

    Links are not followed.
    """
    if _is_run(train_dir):
        return {train_dir.resolve().name: train_dir}
    found: dict[str, Path] = {}
    for path in _folders_below(train_dir, _MOST_LEVELS):
        if len(found) == _MOST_RUNS:
            break
        found[str(path.relative_to(train_dir))] = path
    return found


def _folders_below(folder: Path, levels: int) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            # A name that is no text cannot be asked for by an address.
            inner = sorted(
                entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name.isprintable()
            )
    except OSError:  # somebody else's, or removed just now
        return
    for name in inner:
        path = folder / name
        if _is_run(path):
            yield path
        elif levels > 1:
            yield from _folders_below(path, levels - 1)


def _is_run(path: Path) -> bool:
    folder = RunFolder(path)
    return os.path.lexists(folder.config) or os.path.lexists(folder.profile)


def fingerprint(path: Path) -> tuple[Stamp, ...]:
    """Return what tells whether files of a run have changed since the last time.

    Raises:
        SessionError: one of them, or a folder that they or captures are in, is a link, or a device.
    """
    folder = RunFolder(path)
    files = (folder.config, folder.session, folder.steady, folder.history, folder.log)
    found = [_stamp(file) for file in (folder.profile, folder.captures, *files) if os.path.lexists(file)]
    live = folder.live()
    if os.path.lexists(live.path):
        found.append(_stamp(live.path))
        found += [_stamp(record) for record in live.records()]
    return tuple(found)


def _stamp(path: Path) -> Stamp:
    try:
        status = path.lstat()
    except FileNotFoundError:  # it was just removed
        return str(path), 0, 0
    except OSError as error:
        raise SessionError(f"{path} cannot be looked at: {error.strerror}") from None
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise SessionError(f"{path} is a link or a device, and only files of the run's own folder are read here")
    return str(path), status.st_mtime_ns, status.st_size


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
