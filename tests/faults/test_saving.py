"""What kills, full disks and folders in the way cost: never the checkpoint before, and the run only at its end."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from harness.runs import CARTPOLE, SMALL, command, live_run, load_latest_checkpoint, run
from sample_profiler.cli.training.logs import log_to_file
from sample_profiler.files import read_small_text, remove_partials, written_whole
from sample_profiler.reports.tensorboard import SummaryFile, _EventFile
from sample_profiler.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
SERIAL = (*CARTPOLE, *SMALL, "--serial_mode=True", "--seed=1", "--device=cpu")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_kill_at_any_moment_costs_no_checkpoint_and_each_kill_is_kept(tmp_path: Path) -> None:
    """`make kills` does the same two hundred times with each."""
    kills = tmp_path / "kills.jsonl"
    command = [sys.executable, "-m", "benchmarks.kill_checkpoints", "--kills=8", "--mb=2", "--run_kills=2"]
    result = subprocess.run(
        [*command, f"--output={kills}"], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("8 kills of a process that saves, ")
    assert "2 times the next start went on from the newest checkpoint; 1 of 1 times the last" in result.stdout
    lines = [json.loads(line) for line in kills.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["saving"] * 8 + ["run"] * 2 + ["end"]
    assert lines[9]["begun"] == lines[8]["found"] > 0, "each start goes on where the one before was killed"
    assert all(line["machine"] and line["commit"] for line in lines)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_file_that_cannot_be_written_is_as_before(tmp_path, error):
    path = tmp_path / "file.txt"
    path.write_text("before")
    with pytest.raises(type(error)), written_whole(path) as partial:
        partial.write_text("half")
        raise error
    assert path.read_text() == "before"
    assert names(tmp_path) == ["file.txt"]


def test_a_link_in_the_way_is_not_followed(tmp_path):
    precious, path = tmp_path / "precious.txt", tmp_path / "run" / "file.txt"
    precious.write_text("mine")
    path.parent.mkdir()
    path.symlink_to(precious)
    path.with_name(f".partial_{threading.get_native_id()}_file.txt").symlink_to(precious)
    with written_whole(path) as partial:
        partial.write_text("after")
    assert (precious.read_text(), path.read_text(), path.is_symlink()) == ("mine", "after", False)
    assert names(path.parent) == ["file.txt"]


def test_a_file_that_was_not_written_at_all_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), written_whole(tmp_path / "file.txt"):
        pass
    assert names(tmp_path) == []


def test_a_disk_that_is_full_when_the_file_is_synced_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    path.write_text("before")

    def fail(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"), written_whole(path) as partial:
        partial.write_text("after")
    assert path.read_text() == "before"
    assert names(tmp_path) == ["file.txt"]


def test_a_small_text_is_read_and_nothing_is_waited_for(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("grüße\n", encoding="utf-8")
    assert read_small_text(path) == read_small_text(str(path), most_bytes=8) == "grüße\n"
    with pytest.raises(OSError, match="it has 8 bytes, and 7 are the most"):
        read_small_text(path, most_bytes=7)
    with pytest.raises(FileNotFoundError):
        read_small_text(tmp_path / "none.txt")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless", "."):
        with pytest.raises(OSError, match="is no file but"):
            read_small_text(tmp_path / name)


def test_a_text_that_is_mostly_a_hole_takes_no_memory(tmp_path):
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="are the most that are read"):
        read_small_text(tmp_path / "hole")


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path):
    for name in (".partial_17_checkpoint_000000001_1.pth", "checkpoint_000000001_1.pth", ".hidden"):
        (tmp_path / name).write_text("x")
    assert [path.name for path in remove_partials(tmp_path)] == [".partial_17_checkpoint_000000001_1.pth"]
    assert names(tmp_path) == [".hidden", "checkpoint_000000001_1.pth"]
    assert remove_partials(tmp_path / "no folder") == []


def test_a_log_on_a_full_disk_is_one_warning(tmp_path, monkeypatch, capsys, caplog):
    handler = log_to_file(tmp_path / "log.txt")
    try:
        monkeypatch.setattr(handler.stream, "write", lambda text: fail(), raising=False)

        def fail():
            raise OSError(errno.ENOSPC, "No space left on device")

        with caplog.at_level(logging.INFO):
            for _ in range(3):
                logging.getLogger("a").info("something")
        assert [record.getMessage() for record in caplog.records].count("something") == 3
        assert len([record for record in caplog.records if "The log cannot be written" in record.getMessage()]) == 1
        assert "Traceback" not in capsys.readouterr().err
    finally:
        logging.getLogger().removeHandler(handler)
        monkeypatch.setattr(handler.stream, "flush", fail, raising=False)
        handler.close()  # which writes what is left, or cannot
        monkeypatch.undo()


def test_figures_for_tensorboard_without_a_place_are_warnings(tmp_path, caplog):
    (tmp_path / "summary").write_text("a file is in the way")
    writer = SummaryFile(tmp_path / "summary", 1.0)
    writer.add_scalar("a", 1.0, 1)
    writer.close()
    assert "Cannot write figures for TensorBoard" in caplog.text
    (tmp_path / "summary").unlink()
    writer.add_scalar("a", 1.0, 2)
    writer.close()
    assert [name.startswith("events") for name in names(tmp_path / "summary")] == [True], "it tries again"


def until(happens):
    deadline_s = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_figures_for_tensorboard_whose_folder_gets_lost_are_a_warning_and_no_traceback(tmp_path, caplog, capfd):
    folder = tmp_path / "summary"
    writer = SummaryFile(folder, 0.01)
    for number in (1, 2):
        writer.add_scalar("a", 1.0, number)
        until(lambda: list(folder.glob("events*")))
        shutil.rmtree(folder)
    folder.write_text("a file is in the way")
    until(lambda: writer.add_scalar("a", 1.0, 3) or "Cannot write figures" in caplog.text)
    folder.unlink()
    writer.add_scalar("a", 1.0, 4)
    writer.close()
    (path,) = folder.glob("events*")
    events = list(EventFileLoader(str(path)).Load())
    assert (events[0].file_version, events[-1].step) == ("brain.Event:2", 4)
    assert 0 <= events[-1].wall_time - events[0].wall_time < 60, "charts over time begin with the first event"
    assert "Traceback" not in "".join(capfd.readouterr())


def test_figures_for_tensorboard_that_cannot_be_written_for_whatever_reason_are_a_warning(
    tmp_path, monkeypatch, caplog
):
    def fail(*_):
        raise ValueError("a number is in the way")

    writer = SummaryFile(tmp_path, 0.01)
    with monkeypatch.context() as broken:
        broken.setattr(_EventFile, "_append", fail)
        writer.add_scalar("a", 1.0, 1)
        writer.close()
    assert "Cannot write figures for TensorBoard" in caplog.text and "a number is in the way" in caplog.text
    writer.add_scalar("a", 1.0, 2)
    writer.close()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_run_whose_folder_gets_lost_goes_on_and_fails_at_its_end(tmp_path: Path) -> None:
    flags = (*SERIAL, "--train_for_seconds=6", "--save_every_sec=0.2", "--save_best_after=1000000")
    output = tmp_path / "output.txt"
    with output.open("w") as file:
        process = subprocess.Popen(command(*flags, folder=tmp_path), stdout=file, stderr=subprocess.STDOUT)
    try:
        folder, away = tmp_path / "run" / "checkpoint_p0", tmp_path / "away"
        deadline_s = time.monotonic() + 60
        while not list(folder.glob("checkpoint_0*.pth")) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        folder.rename(away)
        folder.write_text("in the way")
        assert process.wait(60) == 1
    finally:
        process.kill()
        process.wait()
    text = output.read_text()
    assert "WARNING: cannot write the checkpoint" in text
    assert "Training goes on, and tries again in 0.2 s" in text
    assert "Learner_0 failed: CheckpointError: cannot write the checkpoint" in text
    assert "Traceback" not in text
    # What was saved before is whole, and the run goes on from there.
    folder.unlink()
    away.rename(folder)
    before = load_latest_checkpoint(tmp_path / "run")
    partial = folder / ".partial_1_checkpoint_000000009_9.pth"
    partial.write_bytes(b"half")
    steps = int(before["frames"]) + 500
    result = run(*SERIAL, f"--train_for_env_steps={steps}", "--train_for_seconds=60", folder=tmp_path)
    assert result.returncode == 0, result.stdout
    assert "Loaded the checkpoint" in result.stdout
    assert f"Removed the unfinished checkpoint {partial}" in result.stdout
    assert load_latest_checkpoint(tmp_path / "run")["frames"] >= steps
    assert not partial.exists()


def test_a_run_whose_whole_folder_is_removed_says_so_once_and_can_be_resumed(tmp_path: Path) -> None:
    flags = (*SERIAL, "--train_for_seconds=5", "--save_every_sec=0.2", "--experiment_summaries_interval=0.5")
    with live_run(*flags, folder=tmp_path) as live:
        live.wait_until_training()
        folder = RunFolder(live.folder)
        while not any(path.stat().st_size for path in folder.event_files_of(0)):
            time.sleep(0.05)
        # In one step: a checkpoint may just be written, and what is in there is removed bit by bit.
        folder.path.rename(tmp_path / "gone")
        shutil.rmtree(tmp_path / "gone")
        assert live.wait(60) == 0
    assert live.output.count("was removed or renamed while its run goes on") == 1 and "Traceback" not in live.output
    assert "was removed or renamed while its run goes on" in folder.log.read_text()
    for path in (folder.config, folder.report, folder.session, *folder.event_files_of(0)):
        assert path.stat().st_size, path
    assert folder.event_files_of(0)
    frames = load_latest_checkpoint(folder.path)["frames"]
    result = run(*SERIAL, f"--train_for_env_steps={frames + 500}", folder=tmp_path)
    assert result.returncode == 0 and "Loaded the checkpoint" in result.stdout, result.stdout
