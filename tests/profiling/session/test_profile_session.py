"""`profile_session`: any script's training, recorded, readable meanwhile and afterwards."""

from __future__ import annotations

import logging
import os
import threading
import time

import pytest

from sample_profiler import timers
from sample_profiler.analysis.accounts import accounts
from sample_profiler.profiling import TWIN, Timing, get_timing
from sample_profiler.profiling.device_clock import clock as device_clock
from sample_profiler.profiling.session.session import Session, profile_session, read_session
from sample_profiler.profiling.timers.nodes import TimerNode
from sample_profiler.run_folder import RunFolder


@pytest.fixture(autouse=True)
def _fresh_timers():
    timers.reset_timers()
    yield
    timers.reset_timers()


def train():
    with get_timing().add_time("rollout"), timers.hierarchical_timer("env"):
        pass
    with get_timing().add_time("train"):
        timers.set_gauge("loss", 0.5)


def test_a_script_is_recorded_into_one_session(tmp_path):
    before = get_timing()
    with profile_session(tmp_path) as timing:
        assert get_timing() is timing
        train()
    assert get_timing() is before
    session = Session.load(RunFolder(tmp_path).session)
    (record,) = session.processes
    assert (record.name, record.pid, record.is_closed, record.components) == ("main", os.getpid(), True, ["main"])
    assert list(record.trees["main"].children) == ["rollout", "train"]
    assert list(record.trees["timers"].children) == ["env"]
    assert record.gauges["loss"].value == 0.5
    assert record.gauges["memory_mib"].value > 0
    assert session.run["reason"] == "the script has left it"
    assert sorted(record.paths[event.node][-1] for event in record.events) == ["env", "rollout", "train"]
    (figures,) = accounts(session)
    assert sorted(figures.work_ns) == ["rollout", "train"]
    assert figures.wall_ns == sum(figures.work_ns.values()) + figures.unaccounted_ns


def test_what_a_script_merges_is_in_its_session(tmp_path):
    worker = Timing("worker")
    with worker.add_time("from_worker"):
        pass
    with profile_session(tmp_path) as timing:
        train()
        timing.merge(worker)
        timers.get_timer_root().merge(TimerNode.from_tree(worker.snapshot()), root_name="workers")
        (live,) = read_session(tmp_path).processes
    (ended,) = read_session(tmp_path).processes
    for record in (live, ended):
        if record is ended or TWIN == "compiled":  # the other one writes what is new every two seconds
            assert list(record.trees["main"].children) == ["rollout", "train", "from_worker"]
            assert list(record.trees["timers"].children) == ["env", "workers"]
            assert list(record.trees["timers"].children["workers"].children) == ["from_worker"]


@pytest.mark.parametrize("is_stuck", [False, True])
def test_device_time_of_a_script_is_measured_and_the_rest_is_counted(tmp_path, device, is_stuck):
    with profile_session(tmp_path) as timing:
        device.is_stuck = is_stuck
        for _ in range(100):
            with timing.add_time("forward", device=True):
                device.launch(1000)
            device.advance(1000)
    (record,) = Session.load(RunFolder(tmp_path).session).processes
    for tree in (record.trees["main"], timing.snapshot()):
        found = tree.children["forward"].device
        expected = (0, 0, 100) if is_stuck else (100, 100_000, 0)
        assert (found.count, found.total_ns, found.num_unresolved) == expected


def test_device_time_of_a_script_is_known_while_it_goes_on(tmp_path, device, monkeypatch):
    monkeypatch.setattr("sample_profiler.profiling.recording.script._INTERVAL_S", 0.01)
    with profile_session(tmp_path) as timing:
        with timing.add_time("forward", device=True):
            device.launch(1000)
        device.advance(1000)
        deadline_s = time.monotonic() + 30
        while timing.snapshot().children["forward"].device is None:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)


def test_an_error_while_a_script_goes_on_is_told(tmp_path, monkeypatch):
    def fail():
        raise RuntimeError("no disk, no driver")

    told = []
    monkeypatch.setattr("sample_profiler.profiling.recording.script._INTERVAL_S", 0.01)
    monkeypatch.setattr(threading, "excepthook", lambda error: told.append(str(error.exc_value)))
    with profile_session(tmp_path):
        monkeypatch.setattr(device_clock, "poll", fail)
        deadline_s = time.monotonic() + 30
        while not told:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        monkeypatch.undo()
        train()
    assert told == ["no disk, no driver"]
    assert list(read_session(tmp_path).processes[0].trees["main"].children) == ["rollout", "train"]


def test_the_log_says_which_recorder_there_is(tmp_path, caplog):
    with caplog.at_level(logging.INFO), profile_session(tmp_path, "mine"):
        pass
    (path,) = RunFolder(tmp_path).live().path.iterdir()
    assert caplog.messages == [f"Recording mine, recorder: {TWIN}: {path}"]


def test_it_can_be_read_while_it_goes_on(tmp_path):
    with profile_session(tmp_path, name="mine") as timing, timing.add_time("train"):
        (path,) = RunFolder(tmp_path).live().path.iterdir()
        assert path.name == f"mine.{os.getpid()}.rec"
        (record,) = read_session(tmp_path).processes
        assert record.is_alive and record.name == "mine"


def test_an_exception_is_told_in_the_session_and_goes_on(tmp_path):
    with pytest.raises(ValueError, match="bad luck"), profile_session(tmp_path):
        train()
        raise ValueError("bad luck")
    session = read_session(tmp_path)
    assert session.run["reason"] == "ValueError: bad luck"
    assert list(session.processes[0].trees["main"].children) == ["rollout", "train"]


def test_a_second_run_in_the_same_folder_replaces_the_first(tmp_path):
    for _ in range(2):
        with profile_session(tmp_path):
            train()
    assert len(read_session(tmp_path).processes) == 1
    assert read_session(tmp_path).processes[0].trees["main"].children["train"].statistics.count == 1


def test_scripts_with_names_of_one_beginning_share_a_folder(tmp_path):
    for name in ("ppo.first", "ppo"):
        with profile_session(tmp_path, name):
            train()
    assert {path.name for path in RunFolder(tmp_path).live().path.iterdir()} >= {
        f"ppo.first.{os.getpid()}.rec", f"ppo.{os.getpid()}.rec"
    }  # fmt: skip


@pytest.mark.parametrize("name", ["", "a/b", "a\n"])
def test_names_that_cannot_be_those_of_files_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="cannot be that of a file"), profile_session(tmp_path, name):
        pass


def test_an_exception_without_words_is_told_by_its_name(tmp_path):
    with pytest.raises(KeyboardInterrupt), profile_session(tmp_path):
        raise KeyboardInterrupt
    assert read_session(tmp_path).run["reason"] == "KeyboardInterrupt"


def test_a_forked_child_leaves_its_parents_recording_alone(tmp_path):
    with profile_session(tmp_path) as timing:
        train()
        pid = os.fork()
        if not pid:
            with timing.add_time("in the child"):
                pass
            os._exit(0)
        os.waitpid(pid, 0)
    (record,) = read_session(tmp_path).processes
    assert list(record.trees["main"].children) == ["rollout", "train"]


def test_no_thread_is_left(tmp_path):
    with profile_session(tmp_path):
        assert any("sample_profiler" in thread.name for thread in threading.enumerate())
    assert not any("sample_profiler" in thread.name for thread in threading.enumerate())
