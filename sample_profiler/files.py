"""Owns how a file comes to be that others read: as a whole, on the disk, and under its name only then."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

__all__ = ["remove_partials", "written_whole"]

_PARTIAL = ".partial_"


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
        OSError: it cannot be written.
    """
    path = Path(path)
    # The ending stays: some writers look at it, to see whether to compress.
    partial = path.with_name(f"{_PARTIAL}{threading.get_native_id()}_{path.name}")
    try:
        partial.unlink(missing_ok=True)  # a link of that name, in a folder from elsewhere, would be followed
        yield partial
        _sync(partial)
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    _sync(path.parent)


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


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)
