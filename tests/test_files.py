"""Files are written whole, or nothing is touched."""

from __future__ import annotations

import getpass
import os
import pwd
import resource
from pathlib import Path

import pytest

from sample_profiler.files import find_obstacle, try_to_write, written_whole
from tests.isolation.unprivileged import NOBODY, as_nobody, folder_of_nobody


def write(path) -> None:
    with written_whole(path) as partial:
        partial.write_text("new")


def test_a_file_is_replaced_and_one_that_is_not_there_is_made(tmp_path):
    for _ in range(2):
        write(tmp_path / "file")
        assert (tmp_path / "file").read_text() == "new"
        (tmp_path / "file").write_text("old")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_whether_a_file_can_be_written_is_found_out_without_writing_it(tmp_path):
    path = tmp_path / "deep" / "results.csv"
    try_to_write(path)
    assert list(path.parent.iterdir()) == []
    path.write_text("earlier")
    try_to_write(path)
    assert (path.read_text(), list(path.parent.iterdir())) == ("earlier", [path])


@pytest.mark.parametrize("name", ["file/results.csv", "folder", "missing/results.csv"])
def test_what_keeps_a_file_from_being_written_is_told_by_its_name(monkeypatch, name):
    with folder_of_nobody() as folder:
        (folder / "file").touch()
        (folder / "folder").mkdir()
        folder.chmod(0o500)
        with as_nobody(), pytest.raises(OSError) as caught:
            try_to_write(folder / name)
        assert str(caught.value.filename) in (str(folder / name), str((folder / name).parent))
        with as_nobody(), pytest.raises(PermissionError) as caught:
            write(folder / "new")
        assert str(caught.value.filename) == str(folder / "new")


def test_where_there_is_no_room_the_file_is_named_and_it_is_found_out_before(tmp_path):
    """A full disk would be the same, and that is no limit of this process."""
    path, (soft, hard) = tmp_path / "results.csv", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError) as tried:
            try_to_write(path)
        with pytest.raises(OSError) as written, written_whole(path) as partial, partial.open("wb") as file:
            file.write(bytes(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [error.value.filename for error in (tried, written)] == [str(path)] * 2
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize("missing", ["", "inner", "inner/most"])
def test_nothing_is_in_the_way_of_what_may_be_used_or_made(tmp_path, monkeypatch, missing):
    assert find_obstacle(tmp_path / missing) == ""
    monkeypatch.chdir(tmp_path)
    assert find_obstacle(Path(missing)) == ""
    assert find_obstacle(tmp_path / missing, os.R_OK) == ""


@pytest.mark.parametrize(
    ("mode", "refused", "cure"),
    [
        (0o555, "written to", "chmod u+rwx"),
        (0o333, "read", "chmod u+rwx"),
        (0o666, "searched", "chmod u+rwx"),
        (0o000, "read or written to or searched", "chmod u+rwx"),
    ],
)
def test_a_folder_of_ones_own_without_permission_is_named_with_the_command_that_helps(mode, refused, cure):
    with folder_of_nobody() as outer, as_nobody():
        folder = outer / "a folder"
        folder.mkdir()
        folder.chmod(mode)
        me = pwd.getpwuid(os.geteuid()).pw_name
        told = find_obstacle(folder)
        assert told.startswith(f"{folder} (d")
        assert f" {me}:" in told
        assert f"cannot be {refused} by {me}: {cure} '{folder}'" in told
        folder.chmod(0o700)
        assert find_obstacle(folder) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of others")
@pytest.mark.parametrize("missing", ["", "inner/most"])
def test_a_folder_of_somebody_else_is_named_with_its_owner(missing):
    with folder_of_nobody() as outer:
        folder = outer / "folder"
        folder.mkdir()
        folder.chmod(0o755)
        with as_nobody():
            told = find_obstacle(folder / missing)
    me = pwd.getpwuid(NOBODY).pw_name
    assert told.startswith(f"{folder} (drwxr-xr-x {getpass.getuser()}:")
    assert f"cannot be written to by {me}" in told
    assert f"chown -R {me} {folder}" in told
    assert "another --train_dir" in told


def test_what_is_behind_a_folder_that_may_not_be_searched_is_told_of_that_folder():
    with folder_of_nobody() as outer, as_nobody():
        (outer / "a" / "b" / "c").mkdir(parents=True)
        (outer / "a").chmod(0o600)
        assert find_obstacle(outer / "a" / "b" / "c").startswith(f"{outer / 'a'} (drw-------")
        assert find_obstacle(outer / "a" / "not there", os.R_OK).startswith(f"{outer / 'a'} (drw-------")


@pytest.mark.parametrize("behind", ["", "folder", "folder/below"])
def test_a_file_in_the_place_of_a_folder_is_told(tmp_path, behind):
    (tmp_path / "file").touch()
    assert find_obstacle(tmp_path / "file" / behind).startswith(f"{tmp_path / 'file'} is no folder but a file: move it")
    os.mkfifo(tmp_path / "pipe")
    assert "is no folder but a pipe" in find_obstacle(tmp_path / "pipe" / behind)


def test_a_file_system_for_reading_alone_is_told_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)
    assert "forbid it, so see lsattr" in find_obstacle(tmp_path)
    status = os.statvfs_result([*os.statvfs(tmp_path)[:8], os.ST_RDONLY, *os.statvfs(tmp_path)[9:]])
    monkeypatch.setattr(os, "statvfs", lambda path: status)
    assert find_obstacle(tmp_path / "new").startswith(f"{tmp_path} is on a file system that is mounted for reading")
    assert find_obstacle(tmp_path, os.R_OK | os.X_OK) == ""


def test_a_file_may_be_wanted_for_less_than_a_folder():
    with folder_of_nobody() as outer, as_nobody():
        path = outer / "file"
        path.touch()
        path.chmod(0o400)
        assert find_obstacle(path, os.R_OK, is_folder=False) == ""
        assert f"cannot be written to by {pwd.getpwuid(os.geteuid()).pw_name}: chmod u+w {path}" in find_obstacle(
            path, os.W_OK, is_folder=False
        )


def test_users_without_a_name_are_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode, **_: False)
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_001)
    assert "by 4000001: have its owner or an administrator let you (chown -R 4000001 " in find_obstacle(tmp_path)


def test_what_cannot_be_looked_at_is_no_obstacle_that_could_be_told(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    for name in ("link", "link/below", "round", "x" * 300):
        assert find_obstacle(tmp_path / name) == ""
