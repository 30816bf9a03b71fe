"""Processes that tell trackers of a run: they are told its end, and whatever becomes of them costs the run nothing."""

from __future__ import annotations

import logging
import math
import os
import signal
import time

import pytest

from sample_profiler.cli.tracking.beside import TrackerProcesses
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.machine.children_time import list_descendants

PATIENCE_S = 60.0


def wait_for(find):
    """Return what is found, as soon as it is."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (found := find()):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    return found


@pytest.fixture
def begin(make_run):
    """Return what starts the process of the fake tracker beside a run with a point in its files."""
    begun = []

    def begin(folder=None):
        processes = TrackerProcesses(["trackio"], folder or make_run(steps=[[100]]))
        begun.append(processes)
        return processes

    yield begin
    for processes in begun:
        processes.close()
        processes.close()


def test_a_tracker_is_told_of_the_run_and_of_its_end(begin, fake, make_run, caplog):
    caplog.set_level(logging.INFO)
    told, folder = fake(), make_run(steps=[[100]])
    processes = begin(folder)
    wait_for(lambda: [each for each in told() if each[0] == "log"])
    assert processes.look()
    assert processes.finish(math.inf)
    assert [what for what, *_ in told()] == ["init", "log", "files", "finish"]
    name = told()[0][1]
    assert f"Tracker trackio: run {name}: trackio show" in caplog.text
    assert "a word of the library's own" in folder.tracking_log("trackio").read_text()
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


def test_its_processor_time_is_no_games(begin, fake):
    fake()
    before = set(list_descendants())
    begin()
    assert set(list_descendants()) == before


@pytest.mark.parametrize("hangs_in", ["init", "log", "finish"])
def test_who_hangs_is_waited_for_as_long_as_was_said(begin, fake, caplog, hangs_in):
    told = fake(hangs_in)
    processes = begin()
    if hangs_in == "log":
        wait_for(told)
    assert not processes.finish(0.5)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "it has not taken all within 500 ms, and is not waited for any longer" in warning
    assert "sample-profiler track " in warning and " trackio sends it the rest" in warning


def test_a_process_that_is_killed_is_told_of_once_and_the_next_one_goes_on(begin, fake, make_run, caplog):
    told, folder = fake(), make_run(steps=[[100]])
    processes = begin(folder)
    *_, pid = wait_for(lambda: [each for each in told() if each[0] == "log"])[0]
    wait_for(lambda: folder.tracking_state("trackio").exists())
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not processes.look())
    processes.on_status(None)
    assert not processes.finish(PATIENCE_S)
    assert caplog.text.count("its process has ended; the run goes on without it") == 1
    assert begin(folder).finish(math.inf)
    first, second = (each[1] for each in told() if each[0] == "init")
    assert first == second


def test_orders_to_all_processes_of_a_job_are_the_runs(begin, fake):
    told = fake()
    processes = begin()
    *_, pid = wait_for(told)[0]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(pid, number)
    assert processes.finish(math.inf)
    assert told()[-1][0] == "finish"


def test_two_processes_tell_a_tracker_of_one_run_one_after_the_other(begin, fake, make_run, caplog):
    told, folder = fake(), make_run(steps=[[100]])
    first = begin(folder)
    wait_for(told)
    second = begin(folder)
    wait_for(lambda: second.look() and "another process tells it of this run: waiting for it" in caplog.text)
    assert first.finish(math.inf) and second.finish(math.inf)
    assert [what for what, *_ in told()] == ["init", "log", "files", "finish", "init", "files", "finish"]


def test_a_folder_that_cannot_be_written_costs_the_run_nothing(begin, fake, tmp_path, caplog):
    fake()
    (tmp_path / "file").touch()
    processes = begin(RunFolder(tmp_path / "file"))
    assert not processes.look()
    assert "Tracker trackio: it cannot be told of the run" in caplog.text
