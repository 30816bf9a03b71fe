"""From which programs processes can be started, and what the others are told."""

from __future__ import annotations

import importlib.machinery
import multiprocessing
import os
import sys
import types
from pathlib import Path

import pytest

from sample_profiler.errors import ConfigError
from sample_profiler.runtime.processes.main_module import IMPORTED_UNGUARDED, OWN_PROCESS, check_main_module


@pytest.fixture
def make_main(monkeypatch):
    """Put a module in the place of the program that runs."""

    def make(*, file=None, spec=None):
        main = types.ModuleType("__main__")
        main.__spec__ = spec and importlib.machinery.ModuleSpec(spec, None)
        if file is not None:
            main.__file__ = str(file)
        monkeypatch.setitem(sys.modules, "__main__", main)
        return main

    return make


def test_the_program_of_the_tests_can_be_imported():
    check_main_module()


@pytest.mark.parametrize(
    "file", [None, __file__, "/dev/stdin"], ids=["none, as of a notebook", "a script", "/dev/stdin"]
)
def test_scripts_and_what_has_no_file_can_be_imported(make_main, file):
    make_main(file=file)
    check_main_module()


def test_a_script_is_found_from_where_the_process_began(make_main, tmp_path, monkeypatch):
    make_main(file=os.path.relpath(__file__, multiprocessing.process.ORIGINAL_DIR))
    monkeypatch.chdir(tmp_path)
    check_main_module()


@pytest.mark.parametrize("name", ["__main__", "gone.__main__", "sample_profiler.timers"])
def test_modules_that_are_there_and_those_that_are_not_imported_are_fine(make_main, name):
    make_main(spec=name)
    check_main_module()


def test_what_is_not_said_of_the_program_is_said_as_of_a_script(make_main):
    main = make_main(file=__file__)
    del main.__spec__
    check_main_module()
    assert main.__spec__ is None


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({"file": "<stdin>"}, "this program was read from standard input"),
        ({"file": "/proc/self/fd/63"}, "this program was read from /proc/self/fd/63, which is open in this process"),
        ({"file": "/dev/fd/63"}, "this program was read from /dev/fd/63, which is open in this process alone"),
        ({"file": "/gone/mine.py"}, "this program's file /gone/mine.py is not there now"),
        ({"spec": "sample_profiler.gone"}, "this program, the module sample_profiler.gone, is not there now"),
        ({"spec": "gone.mine"}, "this program, the module gone.mine, is not there now"),
    ],
)
def test_programs_that_cannot_be_imported_again_are_told_so_and_the_cure(make_main, told, problem):
    make_main(**told)
    with pytest.raises(ConfigError) as error:
        check_main_module()
    assert str(error.value).startswith(problem)
    assert "processes of their own cannot import it; save it to a file that stays, or use --serial_mode=True" in str(
        error.value
    )


def test_a_module_whose_file_has_been_removed_is_not_there(make_main, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "removed_program.py"
    path.write_text("")
    make_main(spec=path.stem)
    check_main_module()
    path.unlink()
    with pytest.raises(ConfigError, match="the module removed_program, is not there now"):
        check_main_module()


def test_a_process_that_is_still_importing_the_program_starts_none(monkeypatch):
    process = multiprocessing.current_process()
    monkeypatch.setattr(process, "_inheriting", True, raising=False)
    monkeypatch.setattr(process, "name", "SpawnProcess-1")
    with pytest.raises(
        ConfigError, match=r"SpawnProcess-1 cannot start processes yet: .*`if __name__ == \"__main__\":`"
    ):
        check_main_module()
    monkeypatch.setattr(process, "name", f"{OWN_PROCESS}Learner_0")
    with pytest.raises(SystemExit) as ended:
        check_main_module()
    assert ended.value.code == IMPORTED_UNGUARDED


def test_a_path_may_be_one(make_main):
    make_main().__file__ = Path(__file__)
    check_main_module()


def test_a_daemon_is_told_that_it_may_start_no_processes(monkeypatch):
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    with pytest.raises(ConfigError, match=r"multiprocessing\.Pool are, and may start no processes: use concurrent"):
        check_main_module()


def test_who_stands_in_a_folder_that_was_removed_is_told_so(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(ConfigError, match="the current folder was removed"):
        check_main_module()
