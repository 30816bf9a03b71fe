"""Archives from somebody else: what two readers would understand differently, or what is larger than its file."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest
import torch

from sample_profiler.errors import CheckpointError
from sample_profiler.storage.archives import _ZIP_END, check_archive


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.pth"


def make_state(number: int) -> dict:
    return {"weights": torch.full((500,), float(number)), "frames": number}


def records_of(state: object) -> dict[str, bytes]:
    file = io.BytesIO()
    torch.save(state, file)
    with zipfile.ZipFile(file) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def make_zip(records: dict[str, bytes], compression: int, begin: int = 0) -> tuple[bytes, bytes]:
    """Return an archive without its end, and its directory with offsets that are `begin` too large."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    data = file.getvalue()
    *_, length, start, _ = _ZIP_END.unpack(data[-_ZIP_END.size :])
    directory = bytearray(data[start : start + length])
    at = 0
    while at < length:
        struct.pack_into("<L", directory, at + 42, struct.unpack_from("<L", directory, at + 42)[0] + begin)
        at += 46 + sum(struct.unpack_from("<3H", directory, at + 28))
    return data[:start], bytes(directory)


def test_a_file_with_two_directories_is_refused(path):
    """Python reads the one before the end, PyTorch the one that the end points at: which unfolds."""
    bomb = records_of(make_state(3) | {"zeros": torch.zeros(10_000), "noise": torch.rand(5000)})
    loaded, its_directory = make_zip(bomb, zipfile.ZIP_DEFLATED)
    harmless = records_of(make_state(4) | {"zeros": torch.zeros(1), "noise": torch.zeros(1)})
    looked_at, _ = make_zip(harmless, zipfile.ZIP_STORED)
    # Python takes the distance from where the directory is said to be to where it is as that of all offsets.
    _, another = make_zip(harmless, zipfile.ZIP_STORED, len(loaded) - len(looked_at))
    assert len(its_directory) == len(another)
    number = len(harmless)
    end = _ZIP_END.pack(b"PK\x05\x06", 0, 0, number, number, len(another), len(loaded), 0)
    path.write_bytes(loaded + its_directory + looked_at + another + end)
    with zipfile.ZipFile(path) as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        assert archive.testzip() is None
    assert torch.load(path, weights_only=True)["frames"] == 3, "PyTorch unfolds the other one"
    with pytest.raises(CheckpointError, match="an archive in an archive"):
        check_archive(path)


def test_a_file_that_holds_one_thing_many_times_is_refused(path):
    """A gigabyte that is there once and named a thousand times would be read for a day."""
    members, directory = make_zip({"a" * 9: bytes(100_000)}, zipfile.ZIP_STORED)
    directories = b"".join(directory.replace(b"a" * 9, b"%09d" % number) for number in range(20))
    local = members.replace(b"a" * 9, b"%09d" % 0)
    end = _ZIP_END.pack(b"PK\x05\x06", 0, 0, 20, 20, len(directories), len(local), 0)
    path.write_bytes(local + directories + end)
    with pytest.raises(CheckpointError, match="what is in it overlaps"):
        check_archive(path)


@pytest.mark.parametrize("comment", [b"", b"a comment"])
def test_an_archive_with_a_comment_or_something_before_it_is_refused(path, comment):
    torch.save(make_state(1), path)
    data = path.read_bytes()
    check_archive(path)
    path.write_bytes(data[:-2] + struct.pack("<H", len(comment)) + comment if comment else b"x" * 100 + data)
    with pytest.raises(CheckpointError, match="an archive in an archive"):
        check_archive(path)
