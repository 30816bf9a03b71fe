"""A run whose folder is removed meanwhile says so once, and has its first files again."""

from __future__ import annotations

import contextlib
import logging
import shutil

import pytest

from sample_profiler.cli.training.folder_watch import FolderWatch
from sample_profiler.cli.training.logs import RunLog
from sample_profiler.config import load_config, parse_config, save_config
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.surroundings.folder_lock import folder_locked, is_locked


@pytest.fixture
def config(tmp_path):
    return parse_config(["--env=mine", f"--train_dir={tmp_path}", "--experiment=run", "--rollout=16"])


@pytest.fixture
def folder(config):
    config.run.folder.mkdir()
    return RunFolder(config.run.folder)


@pytest.fixture
def look(config, folder, caplog):
    """A look at the folder of a run that has begun; returns the warnings of that look."""
    log = RunLog()
    log.add_file(folder.log)
    save_config(config, folder.config)
    with contextlib.ExitStack() as stack:
        stack.callback(log.close)
        watch = FolderWatch(config, log, stack)

        def look():
            caplog.clear()
            watch.on_summaries(None)
            return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

        yield look


def test_as_long_as_all_is_there_nothing_is_said(folder, look):
    before = folder.config.stat()
    assert look() == look() == []
    assert folder.config.stat() == before


def test_a_folder_that_was_removed_is_made_anew_with_its_flags_and_a_log_that_says_so(folder, look):
    for _ in range(2):  # again, too
        shutil.rmtree(folder.path)
        (warning,) = look()
        assert warning.startswith(f"{folder.path} was removed or renamed while its run goes on")
        assert look() == []
        assert load_config(folder.config).values()["rollout"] == 16
        logging.getLogger("a").info("afterwards")
        assert warning in folder.log.read_text() and "afterwards" in folder.log.read_text()
        assert is_locked(folder.path), "another run is kept out of it"


def test_so_it_is_where_a_checkpoint_was_saved_there_since(folder, look):
    shutil.rmtree(folder.path)
    folder.checkpoints(0).mkdir(parents=True)
    (warning,) = look()
    assert "was removed or renamed" in warning and folder.config.exists() and is_locked(folder.path)


@pytest.mark.parametrize("names", [["config"], ["log"], ["config", "log"]])
def test_files_that_were_removed_alone_are_written_again(folder, look, names):
    for name in names:
        getattr(folder, name).unlink()
    (warning,) = look()
    assert " and ".join({"config": "config.json", "log": "log.txt"}[name] for name in names) in warning
    assert look() == []
    assert folder.config.exists() and ("log" not in names or warning in folder.log.read_text())


def test_what_cannot_be_made_anew_is_said_once_and_tried_again(folder, look):
    shutil.rmtree(folder.path)
    folder.path.write_text("in the way")
    (warning,) = look()
    assert "cannot be made anew" in warning and look() == []
    folder.path.unlink()
    assert "was removed or renamed" in look()[0] and folder.config.exists()


def test_a_folder_that_another_run_has_made_since_stays_that_runs(folder, look):
    shutil.rmtree(folder.path)
    folder.path.mkdir()
    with folder_locked(folder.path):  # it has got no further
        (warning,) = look()
        assert "another run is writing to" in warning and not folder.config.exists()
        folder.config.write_text("its flags")
        folder.log.write_text("its log\n")
        (warning,) = look()
        assert "was replaced: if another run has it now" in warning and look() == []
    assert (folder.config.read_text(), folder.log.read_text()) == ("its flags", "its log\n")


def test_so_it_does_where_that_run_has_ended_and_has_no_log(folder, look):
    shutil.rmtree(folder.path)
    folder.path.mkdir()
    folder.config.write_text("its flags")
    (warning,) = look()
    assert "was replaced: if another run has it now" in warning and look() == []
    assert folder.config.read_text() == "its flags" and not folder.log.exists()


def test_what_is_lost_is_said_though_the_flags_could_be_written_only_later(folder, look, monkeypatch):
    def fail(*_):
        raise OSError("no room")

    shutil.rmtree(folder.path)
    with monkeypatch.context() as patched:
        patched.setattr("sample_profiler.cli.training.folder_watch.save_config", fail)
        assert "cannot be made anew: no room" in look()[0]
    assert "what its processes record is lost" in look()[0] and folder.config.exists()


def test_a_run_without_a_log_of_its_own_gets_none(tmp_path):
    config = parse_config(["--env=mine", f"--train_dir={tmp_path}", "--experiment=run", "--log_to_file=False"])
    folder = RunFolder(config.run.folder)
    folder.path.mkdir()
    with contextlib.ExitStack() as stack:
        log = RunLog()
        stack.callback(log.close)
        FolderWatch(config, log, stack).on_summaries(None)
    assert folder.config.exists() and not folder.log.exists()
