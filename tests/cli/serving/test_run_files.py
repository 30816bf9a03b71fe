"""Which files are read for the live page: those of the runs, and none that a link leads to."""

from __future__ import annotations

import json
import os

import pytest

from sample_profiler.cli.serving import run_files as module
from sample_profiler.cli.serving.run_files import RunFiles, documents_of, find_runs, open_inside, read_log_end
from sample_profiler.errors import SessionError
from sample_profiler.run_folder import RunFolder
from tests.cli.serving.made_runs import make_ended_run
from tests.isolation.unprivileged import as_nobody, folder_of_nobody


def test_runs_are_found_below_the_folder_and_links_are_not_followed(tmp_path):
    train_dir = tmp_path / "train_dir"
    make_ended_run(train_dir / "first")
    make_ended_run(train_dir / "doom" / "second")
    make_ended_run(tmp_path / "outside")
    (train_dir / "nothing").mkdir()
    (train_dir / "link").symlink_to(tmp_path / "outside")
    (train_dir / "doom" / "up").symlink_to(train_dir)
    assert find_runs(train_dir).paths == {"first": train_dir / "first", "doom/second": train_dir / "doom" / "second"}


def test_the_folder_of_one_run_is_a_folder_of_runs(tmp_path):
    make_ended_run(tmp_path / "first")
    assert find_runs(tmp_path / "first").paths == {"first": tmp_path / "first"}


def test_what_is_left_out_is_told(tmp_path, monkeypatch):
    for name in ("first", "second", "third", "a\nb"):
        make_ended_run(tmp_path / name)
    found = find_runs(tmp_path)
    assert set(found.paths) == {"first", "second", "third"}
    assert found.remarks == ["Runs that are left out, since no page can show their names: 1."]
    monkeypatch.setattr(module, "_MOST_RUNS", 2)
    found = find_runs(tmp_path)
    assert set(found.paths) == {"first", "second"}
    assert "These are 2 runs, and there are more: serve a folder in this one." in found.remarks


def test_a_folder_that_may_not_be_read_or_is_gone_says_so():
    with folder_of_nobody() as folder:
        make_ended_run(folder / "first")
        folder.chmod(0o300)
        with as_nobody():
            found = find_runs(folder)
        assert (found.paths, found.remarks) == ({}, [f"{folder} cannot be read: Permission denied."])
    assert find_runs(folder).remarks == [f"{folder} cannot be read: No such file or directory."]


@pytest.mark.parametrize("name", ["session", "steady", "config", "log", "profile", "history", "captures"])
def test_a_run_of_which_a_file_is_a_link_is_not_read(tmp_path, name):
    folder = RunFolder(make_ended_run(tmp_path / "first"))
    other = make_ended_run(tmp_path / "other")
    path = getattr(folder, name)
    if path.exists():
        path.rename(tmp_path / "moved")
    path.symlink_to(getattr(RunFolder(other), name))
    with pytest.raises(SessionError, match=f"{path.name} is a link"):
        RunFiles(folder.path).fingerprint()


def test_a_record_that_is_a_link_is_not_read(tmp_path):
    folder = RunFolder(make_ended_run(tmp_path / "first"))
    folder.live().path.mkdir(exist_ok=True)
    folder.live().record("main", 1).symlink_to("/etc/passwd")
    with pytest.raises(SessionError, match="is a link"):
        RunFiles(folder.path).fingerprint()


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path):
    folder = RunFolder(make_ended_run(tmp_path / "first"))
    os.mkfifo(folder.log)
    with pytest.raises(SessionError, match="a device"):
        RunFiles(folder.path).fingerprint()
    assert read_log_end(folder.path) == ""


def test_what_has_changed_has_another_fingerprint(tmp_path):
    folder = make_ended_run(tmp_path / "first", log="a line\n")
    files = RunFiles(folder)
    before = files.fingerprint()
    assert files.fingerprint() == before == RunFiles(folder).fingerprint()
    with RunFolder(folder).log.open("a") as log:
        log.write("another\n")
    assert files.fingerprint() != before


def test_where_record_files_are_is_read_when_it_has_changed(tmp_path, monkeypatch):
    folder = RunFolder(make_ended_run(tmp_path / "first"))
    read, flag_values = [], RunFolder.flag_values
    monkeypatch.setattr(RunFolder, "flag_values", lambda folder: read.append(folder) or flag_values(folder))
    files = RunFiles(folder.path)
    before = [files.fingerprint() for _ in range(3)][-1]
    assert len(read) == 1
    folder.config.write_text(json.dumps({"flags": {"profile_dir": {"value": str(tmp_path / "elsewhere")}}}))
    elsewhere = folder.live()
    elsewhere.path.mkdir(parents=True)
    elsewhere.record("main", 1).write_text("a record")
    after = files.fingerprint()
    assert str(elsewhere.record("main", 1)) in {path for path, _, _ in after}
    assert len(read) == 3 and after != before


def test_of_a_long_log_the_last_lines_are_shown(tmp_path):
    folder = make_ended_run(tmp_path / "first", log="".join(f"line {number}\n" for number in range(100_000)))
    lines = read_log_end(folder).splitlines()
    assert len(lines) == 40 and lines[-1] == "line 99999"


def test_a_log_that_is_a_link_is_not_shown(tmp_path):
    folder = make_ended_run(tmp_path / "first")
    (tmp_path / "secret").write_text("secret")
    RunFolder(folder).log.symlink_to(tmp_path / "secret")
    assert read_log_end(folder) == ""


def test_documents_are_files_of_the_run_alone(tmp_path):
    folder = RunFolder(make_ended_run(tmp_path / "first"))
    folder.captures.mkdir()
    (folder.captures / "timeline_1.json").write_text("{}")
    (folder.captures / "parts").mkdir()
    (folder.captures / "link.json").symlink_to("/etc/passwd")
    folder.timeline.write_text("{}")
    folder.replay.with_suffix(".mp4").write_text("film")
    assert set(documents_of(folder.path)) == {"timeline_1.json", "timeline.json", "replay.mp4"}


def test_captures_behind_a_link_are_nobodys(tmp_path):
    folder = RunFolder(make_ended_run(tmp_path / "first"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret.json").write_text("{}")
    folder.captures.symlink_to(tmp_path / "other")
    assert documents_of(folder.path) == {}


def test_a_file_is_opened_where_it_lies_whatever_its_name_says(tmp_path):
    folder = make_ended_run(tmp_path / "first")
    (tmp_path / "secret").write_text("secret")
    (folder / "inner").symlink_to(tmp_path)
    for path in (folder / ".." / "secret", folder / "inner" / "secret"):
        with pytest.raises(OSError, match="is no file in"):
            open_inside(folder, path)
