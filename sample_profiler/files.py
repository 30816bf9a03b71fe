"""Owns how a file comes to be that others read: as a whole, on the disk, and under its name only then.

And how one that others have made is read: without waiting for it, and never more than there is room for; and what a
name with `~` means.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

__all__ = ["expand_home", "make_folder", "read_at_once", "read_small_text", "remove_partials", "sync", "written_whole"]

_PARTIAL = ".partial_"
_MOST_BYTES = 64 << 20
_PAGE_BYTES = 4096
_NO_FILE = "it is no file but a folder, a pipe or a device"


@contextlib.contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file as a whole or not at all, on the disk before it has its name: a crash leaves the old one or it.

    ::

        with written_whole("model.bin") as partial:
            partial.write_bytes(data)

    Args:
        path: the file; its folder exists.

    Yields:
        Where to write it: beside `path`, with the same ending. Whatever is raised meanwhile leaves `path` as it was.

    Raises:
        OSError: it cannot be written, or is something else than a file.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a device would be replaced; a folder such as "." has no name
        raise OSError(errno.EINVAL, _NO_FILE, str(path))
    # The ending stays: some writers look at it, to see whether to compress.
    partial = path.with_name(f"{_PARTIAL}{threading.get_native_id()}_{path.name}")
    try:
        partial.unlink(missing_ok=True)  # a link of that name, in a folder from elsewhere, would be followed
        yield partial
        sync(partial)
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    sync(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those that it is in, on the disk before anything is written there; one that is there is fine.

    Raises:
        OSError: it cannot be made.
    """
    made = []
    while not folder.exists():
        made.append(folder)
        folder = folder.parent
    for each in reversed(made):
        each.mkdir(exist_ok=True)
        sync(each.parent)


def remove_partials(folder: Path) -> list[Path]:
    """Remove what writers that were killed in the middle have left in a folder that nobody writes to now.

    Returns:
        What was removed.
    """
    removed = []
    for path in sorted(folder.glob(f"{_PARTIAL}*")):
        with contextlib.suppress(OSError):
            path.unlink()
            removed.append(path)
    return removed


def read_small_text(path: str | os.PathLike[str], most_bytes: int = _MOST_BYTES) -> str:
    """Return the text of a file that may be from elsewhere: a pipe would be waited for, a device may have no end.

    Args:
        path: the file, UTF-8.
        most_bytes: that it may have; a file with holes can say any number.

    Raises:
        OSError: it cannot be read, is no file, or has more.
        UnicodeDecodeError: it is no text.
    """
    # Not to block on a pipe of that name.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, _NO_FILE, os.fspath(path))
        if status.st_size > most_bytes:
            problem = f"it has {status.st_size:,} bytes, and {most_bytes:,} are the most that are read"
            raise OSError(errno.EFBIG, problem, os.fspath(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most_bytes).decode("utf-8")
    finally:
        os.close(descriptor)


def read_at_once(path: str) -> bytes:
    """Return a file of the system, such as those of /proc, by one call: `open` costs some three times as much.

    Args:
        path: the file; 4 KiB of it are read at most.

    Raises:
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _PAGE_BYTES)
    finally:
        os.close(descriptor)


def expand_home(path: str, option: str, error: type[Exception]) -> Path:
    """Return a path whose leading ``~`` or ``~user``, if any, is that home directory.

    Args:
        path: as somebody wrote it.
        option: where they did, for the message.
        error: class of what is raised.

    Raises:
        Exception: of that class; there is no such user, or nothing says where the home directory is.
    """
    try:
        return Path(path).expanduser()
    except (RuntimeError, ValueError):  # ValueError: what no user is called, such as a name with a NUL
        home = path.partition("/")[0]
        raise error(f"{option}={path!r}: there is no home directory {home} here; give the whole path") from None


def sync(path: Path) -> None:
    """Have a file, or what is in a folder by name, on the disk before anything else happens.

    Raises:
        OSError: that is not possible.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)
