"""Runs in a folder that another machine writes, looked at from here: made-up files that say so."""

from __future__ import annotations

import os
import time

import pytest

from sample_profiler.cli import status as status_module
from sample_profiler.cli import watch as watch_module
from sample_profiler.cli.main import main
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile


@pytest.fixture
def process(tmp_path):
    """A process of another machine that has this one's number, and that of none of here."""
    folder = tmp_path / "run" / "profile" / "live"
    folder.mkdir(parents=True)
    timing = Timing("Runner profile")
    path = folder / "Runner.1.rec"
    file = RecordFile(path, process_name="Runner", metadata={"host": "node7", "place": "theirs pid:[1]"})
    file.attach(timing, "Runner")
    file.set_gauge("Runner/frames", 0.0)
    work(timing, file)
    yield timing, file, path
    file.close()


@pytest.fixture
def run_dir(tmp_path, process):
    return str(tmp_path / "run")


def work(timing, file):
    with timing.add_time("main_loop"), timing.add_time("watch_processes"):
        pass
    file.flush()


def age(monkeypatch, path, seconds):
    """Let so many seconds pass in which nothing is written."""
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + seconds)
    os.utime(path, (now_s, now_s))


def test_status_says_where_it_goes_on_and_since_when_it_does_not(run_dir, process, monkeypatch, capsys):
    assert main(["status", run_dir]) == 0
    output = capsys.readouterr().out
    assert output.startswith("The run is running on host node7; updated ") and "processes: 1 alive" in output
    age(monkeypatch, process[2], 500)
    assert main(["status", run_dir]) == 0
    output = capsys.readouterr().out
    assert output.startswith("The run is on host node7; updated 8 min 20 s ago; its processes cannot be seen from here")


def test_watch_shows_it_until_its_files_are_closed(run_dir, process, monkeypatch, capsys):
    timing, file, _ = process
    looks = []

    def sleep(_seconds):
        looks.append(1)
        file.set_gauge("Runner/frames", 1000.0 * len(looks))
        work(timing, file)
        if len(looks) == 4:
            file.close()

    monkeypatch.setattr(watch_module.time, "sleep", sleep)
    assert main(["watch", run_dir]) == 0
    output = capsys.readouterr().out
    assert output.count("frames/s, on host node7; updated ") == 3
    assert output.splitlines()[-1].startswith("The run is over: sample-profiler report ")


@pytest.mark.parametrize("is_written", [True, False])
def test_a_run_whose_clock_is_wrong_is_watched_as_long_as_it_writes(run_dir, process, monkeypatch, capsys, is_written):
    timing, file, path = process
    age(monkeypatch, path, 500)
    looks = []

    def sleep(_seconds):
        looks.append(1)
        if is_written:
            work(timing, file)
        if len(looks) == 4:
            file.close()

    monkeypatch.setattr(watch_module.time, "sleep", sleep)
    assert main(["watch", run_dir]) == (0 if is_written else 2)
    printed = capsys.readouterr()
    if is_written:
        assert printed.out.count("Verdict: ") == 3
    else:
        assert len(looks) == 1
        assert "is over, or does not get here any more (on host node7; updated 8 min 20 s ago)" in printed.err


def test_status_is_shown_again_as_long_as_it_writes(run_dir, process, monkeypatch, capsys):
    monkeypatch.setattr(status_module.time, "sleep", lambda _: process[1].close())
    assert main(["status", run_dir, "--watch"]) == 0
    first, last = (line for line in capsys.readouterr().out.splitlines() if line.startswith("The run "))
    assert first.startswith("The run is running on host node7") and last.startswith("The run has ended")


def test_report_and_trace_say_where_it_is(run_dir, capsys):
    assert main(["report", run_dir, "--format", "text"]) == 0
    assert " · running on host node7; updated " in capsys.readouterr().out
    assert main(["trace", run_dir]) == 0
    assert "The run is on host node7; updated " in capsys.readouterr().err


@pytest.mark.parametrize("command", [["capture"], ["capture", "--tool", "cprofile"], ["whatif"]])
def test_what_asks_its_processes_is_sent_there(run_dir, capsys, command):
    name, *flags = command
    assert main([name, run_dir, *flags]) == 2
    error = capsys.readouterr().err
    assert f"the run in {run_dir} is on host node7" in error and "run this command there" in error
