"""Looks at the ZIP archives that PyTorch makes before it loads one: somebody else may have made it."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path
from typing import BinaryIO

from sample_profiler.errors import CheckpointError

__all__ = ["check_archive"]

# Ends of a ZIP archive's directory: disks, entries, size and offset of the directory, length of a comment; and those of
# its 64-bit form, before which stand versions.
_ZIP_END = struct.Struct("<4s4H2LH")
_ZIP64_LOCATOR = struct.Struct("<4sLQL")
_ZIP64_END = struct.Struct("<4sQ2H2L4Q")
_ZIP_TAIL = _ZIP64_END.size + _ZIP64_LOCATOR.size + _ZIP_END.size


def check_archive(file: Path | BinaryIO) -> None:
    """Look at an archive before PyTorch loads it.

    PyTorch stores tensors as they are. A compressed archive is somebody else's, and may unfold to a thousand times its
    size in memory.

    Raises:
        CheckpointError: it is compressed or damaged, or two readers might find different files in it.
        zipfile.BadZipFile: it is none.
    """
    if isinstance(file, Path):
        with file.open("rb") as opened:
            check_archive(opened)
        return
    with zipfile.ZipFile(file) as archive:  # PyTorch does not look at the checksums that it writes
        infos = archive.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
            raise CheckpointError("it is compressed, as no checkpoint of this package is")
        names = {info.filename for info in infos}
        if not _has_one_directory(file) or len(names) < len(infos):
            raise CheckpointError("it is an archive in an archive, as no checkpoint of this package is")
        if sum(info.file_size for info in infos) > file.seek(0, os.SEEK_END):
            raise CheckpointError("what is in it overlaps, as in no checkpoint of this package")
        if damaged := archive.testzip():
            raise CheckpointError(f"{damaged} in it has another checksum than when it was written")


def _has_one_directory(file: BinaryIO) -> bool:
    """Tell whether a ZIP archive's directory is where its end says, and reaches up to that end.

    Python looks for it before the end, PyTorch where the end says: it could load another one than was looked at.
    Offsets and sizes are those of the ZIP specification (APPNOTE 6.3, sections 4.3.14 to 4.3.16).
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _ZIP_TAIL))
    tail = file.read()
    end = len(tail) - _ZIP_END.size
    if end < 0:
        return False
    signature, *_, length, begin, comment_size = _ZIP_END.unpack_from(tail, end)
    if signature != b"PK\x05\x06" or comment_size:
        return False
    directory_end = size - _ZIP_END.size
    locator = end - _ZIP64_LOCATOR.size
    if tail[max(0, locator) :].startswith(b"PK\x06\x07"):
        directory_end -= _ZIP64_LOCATOR.size + _ZIP64_END.size
        _, _, record_begin, _ = _ZIP64_LOCATOR.unpack_from(tail, locator)
        if record_begin != directory_end or locator < _ZIP64_END.size:
            return False
        signature, *_, length, begin = _ZIP64_END.unpack_from(tail, locator - _ZIP64_END.size)
        if signature != b"PK\x06\x06":
            return False
    return bool(begin + length == directory_end)
