"""Files are written whole, or nothing is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sample_profiler.files import written_whole


def write(path) -> None:
    with written_whole(path) as partial:
        partial.write_text("new")


def test_a_file_is_replaced_and_one_that_is_not_there_is_made(tmp_path):
    for _ in range(2):
        write(tmp_path / "file")
        assert (tmp_path / "file").read_text() == "new"
        (tmp_path / "file").write_text("old")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["", ".", "/", "pipe", "folder"])
def test_what_is_no_file_is_not_replaced(tmp_path, monkeypatch, name):
    """A device would be: who may write to its folder would have a file in the place of /dev/null."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("folder").mkdir()
    with pytest.raises(OSError, match="it is no file but a folder, a pipe or a device"):
        write(name)
    assert Path("pipe").is_fifo() and Path("folder").is_dir()
    assert len(list(tmp_path.iterdir())) == 2
