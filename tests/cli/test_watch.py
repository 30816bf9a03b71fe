"""A run that goes on, watched from its record files."""

from __future__ import annotations

import os

import pytest

from sample_profiler.analysis.facts import RunFacts
from sample_profiler.cli import watch as watch_module
from sample_profiler.cli.main import main
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
from tests.analysis.made_runs import inference, learner, worker


@pytest.fixture
def process(tmp_path):
    folder = tmp_path / "run" / "profile" / "live"
    folder.mkdir(parents=True)
    timing = Timing("Runner profile")
    file = RecordFile(folder / "Runner.1.rec", process_name="Runner", ring_bytes=0)
    file.attach(timing, "Runner")
    file.set_gauge("Runner/frames", 0.0)
    yield timing, file
    file.close()


def test_throughput_accounts_and_verdict_are_shown_until_the_run_is_over(tmp_path, process, monkeypatch, capsys):
    timing, file = process
    looks = []

    def work(_seconds):
        looks.append(1)
        with timing.add_time("main_loop"), timing.add_time("watch_processes"):
            pass
        file.set_gauge("Runner/frames", 1000.0 * len(looks))
        file.flush()
        if len(looks) == 4:
            file.close()

    monkeypatch.setattr(watch_module.time, "sleep", work)
    assert main(["watch", str(tmp_path / "run"), "--window", "1"]) == 0
    output = capsys.readouterr().out
    assert output.count("frames/s") >= 2
    assert output.count("Verdict: ") == 3
    assert "component" in output and "Runner" in output
    assert output.splitlines()[-1].startswith("The run is over: sample-profiler report ")


def test_nothing_is_counted_from_before_the_first_gauges(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run" / "profile" / "live"
    folder.mkdir(parents=True)
    timing, looks = Timing("Runner profile"), []
    file = RecordFile(folder / "Runner.1.rec", process_name="Runner", ring_bytes=0)
    file.attach(timing, "Runner")

    def work(_seconds):
        looks.append(1)
        if len(looks) > 1:
            file.set_gauge("Runner/frames", 1e12 + len(looks))
        if len(looks) == 4:
            file.close()

    monkeypatch.setattr(watch_module.time, "sleep", work)
    assert main(["watch", str(tmp_path / "run")]) == 0
    output = capsys.readouterr().out
    assert output.count("Verdict: ") == 1 and "frames/s" in output
    assert "000,000,000 frames/s" not in output, "frames of the time before are none of this window"


@pytest.mark.parametrize(
    ("window_s", "seconds", "num_datasets", "advice"),
    [
        (15, 15.0, 3, "--window=30: a verdict takes 8 s and 4 datasets, and one takes 5.0 s here"),
        (15, 15.2, 0, "--window=92: a verdict takes 8 s and 4 datasets, and one takes more than 15 s here"),
        (2, 2.0, 20, "--window=9: a verdict takes 8 s and 4 datasets, and one takes 0.1 s here"),
        (15, 4.0, 1, "some patience: of the 15 s that --window asks for, not all have gone by yet"),
        (15, 15.0, 4, None),
    ],
)
def test_a_window_that_holds_too_little_is_to_be_longer_not_the_run(
    window_s, seconds, num_datasets, advice, tmp_path, process, monkeypatch, capsys
):
    looks = []

    def work(_seconds):
        looks.append(1)
        process[1].flush()
        if len(looks) == 2:
            process[1].close()

    loads = (worker(0), inference(), learner(0.9))
    loads[-1].counts["train"] = num_datasets
    facts = RunFacts(seconds, 0.0, 5000.0, 2, 0.5, False, loads)
    monkeypatch.setattr(watch_module.time, "sleep", work)
    monkeypatch.setattr(watch_module, "run_facts", lambda _: facts)
    assert main(["watch", str(tmp_path / "run"), f"--window={window_s}"]) == 0
    output = capsys.readouterr().out
    assert "a longer run" not in output
    if advice is None:
        assert "--window" not in output and "too little" not in output
    else:
        assert f"  try {advice}\n" in output


def test_a_run_that_is_over_is_no_run_to_watch(tmp_path, process, capsys):
    process[1].close()
    assert main(["watch", str(tmp_path / "run")]) == 2
    assert "is over: sample-profiler report" in capsys.readouterr().err


def test_a_folder_that_is_no_runs_is_told(tmp_path, capsys):
    assert main(["watch", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("sample-profiler watch: ")


def test_in_a_terminal_the_text_stays_in_its_place_and_does_not_scroll(tmp_path, process, monkeypatch, capsys):
    timing, file = process
    looks = []

    def work(_seconds):
        looks.append(1)
        with timing.add_time("main_loop"), timing.add_time("watch_processes"):
            pass
        file.set_gauge("Runner/frames", 1000.0 * len(looks))
        file.flush()
        if len(looks) == 4:
            file.close()

    monkeypatch.setattr(watch_module.time, "sleep", work)
    monkeypatch.setattr(watch_module.sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(watch_module.shutil, "get_terminal_size", lambda **_: os.terminal_size((80, 4)))
    assert main(["watch", str(tmp_path / "run")]) == 0
    output = capsys.readouterr().out
    before, *screens = output.split("\033[H")
    assert (before, len(screens)) == ("\033[2J", 3)
    for screen in screens:
        lines, _, _ = screen.partition("\033[J")
        assert lines.count("\n") == lines.count("\033[K\n") == 3
