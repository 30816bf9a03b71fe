"""Owns how a file comes to be that others read: as a whole, on the disk, and under its name only then.

And how one that others have made is read: without waiting for it, and never more than there is room for; what a name
with `~` means; and the words for what keeps this process from a file or folder.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import shlex
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

__all__ = [
    "expand_home",
    "find_obstacle",
    "make_folder",
    "read_at_once",
    "read_small_text",
    "remove_partials",
    "sync",
    "try_to_write",
    "written_whole",
]

_PARTIAL = ".partial_"
_MOST_BYTES = 64 << 20
_PAGE_BYTES = 4096
_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a write may be refused for, whose error knows no name."""
_NO_FILE = "it is no file but a folder, a pipe or a device"
_WORDS = {os.R_OK: "read", os.W_OK: "written to", os.X_OK: "searched"}
_ALL = os.R_OK | os.W_OK | os.X_OK
_KINDS = {stat.S_IFREG: "a file", stat.S_IFIFO: "a pipe"}


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
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        is_nameless = isinstance(error, OSError) and error.filename is None and error.errno in _OF_WRITING
        if isinstance(error, OSError) and (is_nameless or str(error.filename) == str(partial)):
            error.filename = str(path)  # the name that somebody knows
        raise
    sync(path.parent)


def try_to_write(path: Path) -> None:
    """Find out whether a file can be written, for whoever works for long before there is something to write.

    Its folder is made if it is not there.

    Raises:
        OSError: it cannot.
    """
    make_folder(path.parent)
    with contextlib.suppress(_TriedError), written_whole(path) as partial:
        with partial.open("wb") as file:  # an empty one can be made on a disk that is full
            file.write(bytes(_PAGE_BYTES))
            file.flush()
            os.fsync(file.fileno())
        raise _TriedError


class _TriedError(Exception):
    """A file could have been written."""


def make_folder(folder: Path) -> None:
    """Make a folder and those that it is in, on the disk before anything is written there; one that is there is fine.

    Raises:
        OSError: it cannot be made, or something else has its name.
    """
    made = []
    while not folder.exists():
        made.append(folder)
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
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


def find_obstacle(path: Path, wanted: int = _ALL, *, is_folder: bool = True) -> str:
    """Say what keeps this process from a folder or file, or from making it where it is not there; empty: nothing does.

    Only what the system tells in advance is found: a file system may refuse what it seems to allow.

    Args:
        path: the folder or file.
        wanted: what is to be possible there: `os.R_OK`, `os.W_OK` and `os.X_OK`, added up; with `os.W_OK`, also that it
            is made.
        is_folder: what it is, or is to be.
    """
    with contextlib.suppress(OSError):
        place, status, wanted = _find_place(path.absolute(), wanted)
        if (is_folder or place != path.absolute()) and not stat.S_ISDIR(status.st_mode):
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "a device")
            return f"{place} is no folder but {kind}: move it away, or use another --train_dir or --experiment"
        return _describe_refusal(place, status, wanted)
    return ""


def _find_place(path: Path, wanted: int) -> tuple[Path, os.stat_result, int]:
    """Return the innermost of a path and the folders that it is in that can be looked at, and what is wanted of it."""
    while True:
        try:
            return path, path.stat(), wanted
        except FileNotFoundError:
            if path.is_symlink():  # to nowhere, which says nothing of what is possible here
                raise
            wanted = os.W_OK | os.X_OK if wanted & os.W_OK else os.X_OK
        except NotADirectoryError:
            pass
        except PermissionError:
            wanted = os.X_OK
        path = path.parent


def _describe_refusal(place: Path, status: os.stat_result, wanted: int) -> str:
    refused = [word for bit, word in _WORDS.items() if wanted & bit and not os.access(place, bit, effective_ids=True)]
    if not refused:
        return ""
    if "written to" in refused and os.statvfs(place).f_flag & os.ST_RDONLY:
        return (
            f"{place} is on a file system that is mounted for reading alone: have it mounted for writing, or use "
            "another --train_dir"
        )
    me, owner = _name_user(os.geteuid()), _name_user(status.st_uid)
    whose = f"{stat.filemode(status.st_mode)} {owner}:{_name_group(status.st_gid)}"
    return f"{place} ({whose}) cannot be {' or '.join(refused)} by {me}: {_find_cure(place, status, wanted)}"


def _find_cure(place: Path, status: os.stat_result, wanted: int) -> str:
    me, quoted = os.geteuid(), shlex.quote(str(place))
    if me == 0 or (status.st_uid == me and status.st_mode >> 6 & wanted == wanted):
        return f"it is not its permissions that forbid it, so see lsattr -d and getfacl {quoted}"
    if status.st_uid == me:
        letters = "".join(letter for bit, letter in zip(_WORDS, "rwx", strict=True) if wanted & bit)
        return f"chmod u+{letters} {quoted}"
    return (
        f"have its owner or an administrator let you (chown -R {_name_user(me)} {quoted}), run as "
        f"{_name_user(status.st_uid)}, or use another --train_dir"
    )


def _name_user(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:  # as in containers
        return str(user)


def _name_group(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
