"""What is no run's folder, or no place for a file, is told in one line by every command."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

from sample_profiler import profile_session
from sample_profiler.cli.main import main
from tests.isolation.unprivileged import as_nobody, folder_of_nobody

# Commands import these late, with modules of Python that may not be readable without privileges.
for late in ("sample_profiler.cli.capture.progress", "sample_profiler.foreign.runs"):
    importlib.import_module(late)

READING = [
    *("status {bad}", "watch {bad}", "report {bad}", "report {bad} --format=text", "trace {bad}", "whatif {bad}"),
    *("diff {bad} {bad}", "diff {good} {bad}", "import-checkpoint {bad} {new}"),
    *("capture {bad} --seconds=0.1", "capture {bad} --tool=cprofile --seconds=0.1"),
]
WRITING = [
    *("report {good} --output={bad}", "report {good} --format=json --output={bad}", "trace {good} --output={bad}"),
    "compare --runs=1 --output={bad} -- false",
]
FILES = ("config.json", "profile/session.json", "profile/steady.json", "profile/live/Runner.1.rec")


def make_garbage(folder: Path) -> None:
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\x80\x00garbage")


def make_empty_files(folder: Path) -> None:
    make_garbage(folder)
    for name in FILES:
        (folder / name).write_bytes(b"")


def make_folders_of_files(folder: Path) -> None:
    for name in FILES:
        (folder / name).mkdir(parents=True)


def make_unreadable(folder: Path) -> None:
    make_garbage(folder)
    folder.chmod(0)


def make_unreadable_files(folder: Path) -> None:
    make_garbage(folder)
    for name in FILES:
        (folder / name).chmod(0)


FOLDERS = {
    "missing": lambda path: None,
    "empty": Path.mkdir,
    "file": Path.touch,
    "pipe": os.mkfifo,
    "link": lambda path: path.symlink_to("nowhere"),
    **{make.__name__: make for make in (make_garbage, make_empty_files, make_folders_of_files, make_unreadable)},
    "make_unreadable_files": make_unreadable_files,
}


def assert_told_in_a_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    with as_nobody():
        assert main(words) == 2
    told = capsys.readouterr().err
    (line,) = (line for line in told.splitlines() if not line.startswith("Capturing with"))
    assert line.startswith(f"sample-profiler {words[0]}: ") and len(line) > len(f"sample-profiler {words[0]}: ")
    assert "Errno" not in line


def fill(command: str, folder: Path, bad: Path) -> list[str]:
    with profile_session(folder / "good") as timing, timing.add_time("step"):
        pass
    return command.format(bad=bad, good=folder / "good", new=folder / "new").split()


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("kind", FOLDERS)
def test_what_is_no_folder_of_a_run_is_told(command, kind, capsys):
    with folder_of_nobody() as folder:
        FOLDERS[kind](folder / "bad")
        assert_told_in_a_line(fill(command, folder, folder / "bad"), capsys)


@pytest.mark.parametrize("command", WRITING)
@pytest.mark.parametrize("bad", ["file/below", "closed/new", "/proc/none"])
def test_where_no_file_can_be_written_is_told(command, bad, capsys):
    with folder_of_nobody() as folder:
        (folder / "file").touch()
        (folder / "closed").mkdir(mode=0o500)
        assert_told_in_a_line(fill(command, folder, folder / bad), capsys)
