"""What may be unlinked and what may not; what a process has mapped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from spawned_components import SLEEP, has_ended, map_file

from sample_profiler.errors import ConfigError
from sample_profiler.runtime.processes import orphans
from sample_profiler.runtime.processes.orphans import (
    check_processes_shown,
    descendants_of,
    end_sessions,
    list_shared_memory,
    mapped_shared_memory,
    unlink_unused,
)
from sample_profiler.runtime.processes.supervisor import Supervisor
from tests.isolation.shared_names import make_shared_name


@pytest.fixture
def name():
    name = make_shared_name("sample profiler")  # names may have blanks
    Path(name).write_bytes(bytes(4096))
    yield name
    Path(name).unlink(missing_ok=True)


def test_where_the_system_hides_whose_processes_there_are_nothing_is_found(monkeypatch):
    def refuse(*_, **__):
        raise psutil.AccessDenied(1)

    monkeypatch.setattr(psutil.Process, "children", refuse)
    assert descendants_of([os.getpid()]) == {os.getpid(): set()}
    assert end_sessions([os.getpid()]) == set()


def test_files_that_nobody_maps_and_that_are_new_are_unlinked(name):
    assert unlink_unused([name], existed_before=()) == [name]
    assert not os.path.exists(name)


def test_files_that_existed_before_stay(name):
    assert unlink_unused([name], existed_before=list_shared_memory()) == []
    assert os.path.exists(name)


def test_files_that_a_living_process_maps_stay_unless_it_is_the_one_that_asks(name):
    memory = map_file(name, "r+b")
    assert unlink_unused([name], existed_before=()) == []
    assert unlink_unused([name], existed_before=(), ignore_pid=os.getpid()) == [name]
    memory.close()


def test_names_of_files_that_are_gone_are_nothing_to_do(name):
    os.unlink(name)
    assert unlink_unused([name], existed_before=()) == []


def test_a_file_that_cannot_be_unlinked_does_not_keep_the_others(name, monkeypatch):
    other = f"{name}_other"
    Path(other).touch()
    unlink = os.unlink

    def refuse(path):
        if path == name:
            raise PermissionError(path)
        unlink(path)

    monkeypatch.setattr(orphans.os, "unlink", refuse)
    assert unlink_unused([name, other], existed_before=()) == [other]


def test_processes_are_looked_at_only_if_there_is_something_to_unlink(name, monkeypatch):
    monkeypatch.setattr(psutil, "pids", lambda: pytest.fail("looked at all processes for nothing"))
    assert unlink_unused([], existed_before=()) == []
    assert unlink_unused([name], existed_before=[name]) == []


def test_mapped_files_are_found_until_they_are_unmapped_or_unlinked(name):
    assert name not in mapped_shared_memory([os.getpid()])
    memory = map_file(name, "r+b")
    assert name in mapped_shared_memory([os.getpid()])
    os.unlink(name)
    # From here on somebody else may make a file of that name.
    assert name not in mapped_shared_memory([os.getpid()])
    memory.close()


def test_names_that_are_no_text_are_read_and_unlinked(name, tmp_path):
    paths = [os.fsencode(tmp_path) + b"/k\xfcche", os.fsencode(name) + b"_k\xfcche"]
    try:
        for path in paths:
            Path(os.fsdecode(path)).touch()
        memories = [map_file(os.fsdecode(path), "w+b") for path in paths]
        found = os.fsdecode(paths[1])
        assert found in mapped_shared_memory([os.getpid()])
        for memory in memories:
            memory.close()
        assert unlink_unused([found], existed_before=()) == [found]
    finally:
        Path(os.fsdecode(paths[1])).unlink(missing_ok=True)


def test_processes_that_are_gone_map_nothing():
    assert mapped_shared_memory([2**22 + 1]) == set()


def test_files_in_folders_are_listed(name):
    folder = Path(f"{name}_folder")
    folder.mkdir()
    (folder / "file").touch()
    try:
        assert {name, str(folder / "file")} <= list_shared_memory()
    finally:
        (folder / "file").unlink()
        folder.rmdir()


def test_folders_that_vanish_while_they_are_listed_are_passed_over(monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    (tmp_path / "file").touch()
    scandir = os.scandir

    def vanish(path):
        if not isinstance(path, int) and Path(path).name == "gone":
            raise FileNotFoundError(path)
        return scandir(path)

    monkeypatch.setattr(orphans, "_SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(os, "scandir", vanish)
    assert list_shared_memory() == {str(tmp_path / "gone"), str(tmp_path / "file")}


def test_systems_without_named_shared_memory_have_nothing_to_list(monkeypatch, tmp_path):
    monkeypatch.setattr(orphans, "_SHARED_MEMORY", tmp_path / "nowhere")
    assert list_shared_memory() == frozenset()


def test_end_sessions_ends_what_is_left_of_them_and_nothing_else():
    mine = subprocess.Popen(SLEEP, start_new_session=True)
    other = subprocess.Popen(SLEEP, start_new_session=True)
    end_sessions([mine.pid])
    assert has_ended(mine.pid)
    assert not has_ended(other.pid)
    end_sessions([other.pid])
    for process in (mine, other):
        process.wait()


def test_end_descendants_ends_children_of_children_and_unlinks_what_they_mapped(name):
    code = f"""
import os, psutil, subprocess, sys
from sample_profiler.runtime.processes.orphans import end_descendants, list_shared_memory
before = list_shared_memory()
maps = "import mmap, time; f = open({name + "_new"!r}, 'w+b'); f.truncate(9); m = mmap.mmap(f.fileno(), 9);"
maps += "print(flush=True); time.sleep(300)"
starts = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
child = subprocess.Popen([sys.executable, "-c", starts, maps], stdout=subprocess.PIPE)
child.stdout.readline()
assert os.path.exists({name + "_new"!r})
end_descendants(before)
print(psutil.pid_exists(child.pid), os.path.exists({name + "_new"!r}), os.path.exists({name!r}))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout.split() == ["False", "False", "True"], result.stderr


def test_where_the_system_shows_no_processes_at_all_none_are_started(monkeypatch):
    check_processes_shown()
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: not path.startswith("/proc/") and exists(path))
    with pytest.raises(ConfigError, match="there is no /proc, by which a run"):
        Supervisor()
    monkeypatch.setattr(sys, "platform", "darwin")
    check_processes_shown()
