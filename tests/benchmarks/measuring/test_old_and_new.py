"""An old run and a new one work in turns: one is suspended while the other one works, and the new one is ended."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from benchmarks.measuring.turns import old_and_new
from benchmarks.measuring.turns.old_and_new import read_frames, read_rate, take_turns
from sample_profiler.run_folder import RunFolder

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A run that does nothing and has a checkpoint."""
    monkeypatch.setattr(old_and_new, "_SETTLE_S", 0.0)
    (tmp_path / "run" / "checkpoint_p0").mkdir(parents=True)
    (tmp_path / "run" / "checkpoint_p0" / "checkpoint_000000007_70.pth").write_text("weights")
    process = psutil.Popen(SLEEP)
    yield process
    process.kill()
    process.wait()


def test_one_is_suspended_while_the_other_one_works(old, tmp_path, monkeypatch):
    seen = []

    def rate(folder, seconds):
        (new,) = (each for each in psutil.Process().children() if each.pid != old.pid and each.cmdline()[1:2] == ["-c"])
        is_new = folder.parent.name == "new"
        working, other = (new, old) if is_new else (old, new)
        while other.status() != psutil.STATUS_STOPPED:  # the kernel may take a moment
            time.sleep(0.01)
        seen.append((is_new, working.status(), new.cmdline()[-2:]))
        return float(len(seen))

    monkeypatch.setattr(old_and_new, "_wait_until_it_trains", lambda folder: None)
    monkeypatch.setattr(old_and_new, "read_rate", rate)
    turns = take_turns(old, tmp_path / "run", SLEEP, tmp_path / "new", 2)
    assert (turns.new, turns.old) == ([1.0, 4.0], [2.0, 3.0])
    assert [is_new for is_new, *_ in seen] == [True, False, False, True]
    for _, status, flags in seen:
        assert status != psutil.STATUS_STOPPED
        assert flags == [f"--train_dir={tmp_path / 'new'}", "--experiment=run"]
    assert (tmp_path / "new" / "run" / "checkpoint_p0" / "checkpoint_000000007_70.pth").read_text() == "weights"
    assert old.status() != psutil.STATUS_STOPPED
    assert [each.pid for each in psutil.Process().children() if each.cmdline()[1:2] == ["-c"]] == [old.pid]


def test_a_new_run_that_does_not_train_is_ended_and_the_old_one_goes_on(old, tmp_path, monkeypatch):
    monkeypatch.setattr(old_and_new, "_START_S", 0.2)
    with pytest.raises(RuntimeError, match="does not train"):
        take_turns(old, tmp_path / "run", SLEEP, tmp_path / "new")
    assert old.status() != psutil.STATUS_STOPPED
    assert [each.pid for each in psutil.Process().children() if each.cmdline()[1:2] == ["-c"]] == [old.pid]


@pytest.fixture
def clock(monkeypatch):
    """Let time pass in waiting alone."""
    now_s = [100.0]

    def sleep(seconds):
        now_s[0] += seconds

    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    monkeypatch.setattr("time.sleep", sleep)
    return now_s


def test_a_rate_is_taken_between_two_changes(clock, tmp_path, monkeypatch):
    """A run writes its figures once a second: frames of a part of a second at each end would count for nothing."""
    monkeypatch.setattr(old_and_new, "read_frames", lambda _: 500.0 * int(clock[0] + 0.55))
    assert read_rate(tmp_path, 5.3) == pytest.approx(500)


def test_a_run_that_stands_still_has_no_rate(clock, tmp_path, monkeypatch):
    monkeypatch.setattr(old_and_new, "read_frames", lambda _: 500.0)
    with pytest.raises(RuntimeError, match="does not train"):
        read_rate(tmp_path, 5.0)


@pytest.mark.parametrize("process", ["Runner", "Serial"])
def test_frames_are_read_where_all_share_one_process_too(process, tmp_path, monkeypatch):
    gauges = {"Runner/frames": SimpleNamespace(value=64.0)}
    monkeypatch.setattr(old_and_new, "read_record_file", lambda *_, **__: SimpleNamespace(gauges=gauges))
    live = RunFolder(tmp_path).live("").path
    live.mkdir(parents=True)
    assert read_frames(tmp_path) == 0
    (live / f"{process}.7.rec").touch()
    assert read_frames(tmp_path) == 64
