"""Short runs: fresh processes whose figures are read, written down, and found again."""

from __future__ import annotations

import json
import sys

import pytest

from sample_profiler.cli.tune import trials as module
from sample_profiler.cli.tune.search import Measured
from sample_profiler.cli.tune.trials import Trials
from sample_profiler.errors import SessionError
from sample_profiler.profiling.session.session import Session
from sample_profiler.run_folder import RunFolder

TRAINS = """
import json, pathlib, sys
flags = dict(word[2:].split("=", 1) for word in sys.argv[1:])
folder = pathlib.Path(flags["train_dir"], flags["experiment"])
folder.mkdir(parents=True, exist_ok=True)
fps = float(flags["train_for_seconds"]) >= LEAST and 100.0 * int(flags.get("num_workers", 1))
(folder / "benchmark.json").write_text(json.dumps({"steady_fps": fps}))
(folder / "config.json").write_text(json.dumps({"flags": {"num_workers": {"value": 1, "origin": "default"}}}))
"""


@pytest.fixture
def trials_of(tmp_path):
    def trials_of(source, budget_s=600.0):
        program = tmp_path / "program.py"
        program.write_text(source)
        trials = Trials([sys.executable, str(program)], tmp_path / "out", budget_s)
        session = RunFolder(tmp_path / "out" / "trial").session
        session.parent.mkdir(parents=True, exist_ok=True)
        Session(created_s=0.0).save(session)
        return trials

    return trials_of


def test_figures_are_read_and_written_down_and_found_again(trials_of, tmp_path):
    trials = trials_of(TRAINS.replace("LEAST", "0"))
    first = trials.first()
    assert (first.fps, first.flags) == (100.0, {"num_workers": 1})
    assert trials.measure((("num_workers", 3),), 2) == 300.0
    again = Trials([sys.executable, str(tmp_path / "program.py")], tmp_path / "out", 600.0)
    assert again.kept == [Measured((("num_workers", 3),), 2, 300.0)]
    assert Trials(["another", "command"], tmp_path / "out", 600.0).kept == []


def test_a_command_that_needs_longer_gets_it_and_one_that_never_trains_is_told_of(trials_of):
    assert trials_of(TRAINS.replace("LEAST", "90")).first().fps == 100.0
    with pytest.raises(SessionError, match=r"trains on nothing in .*--minutes=30"):
        trials_of(TRAINS.replace("LEAST", "1e9")).first()


def test_a_command_that_fails_is_told_with_its_last_words(trials_of):
    with pytest.raises(SessionError, match=r"status 3:\n.*unknown flag"):
        trials_of("print('unknown flag'); raise SystemExit(3)").first()
    with pytest.raises(SessionError, match="left no figures"):
        trials_of("").first()


def test_a_setting_that_fails_is_no_end(trials_of):
    trials = trials_of(TRAINS.replace("LEAST", "0") + "if flags.get('transport'): raise SystemExit('no such queue')")
    trials.first()
    setting = (("transport", "fifo"),)
    assert trials.measure(setting, 1) is None
    assert "no such queue" in trials.problems[setting]


def test_a_run_that_was_too_short_is_made_again_and_all_later_ones_are_longer(trials_of):
    source = TRAINS.replace("LEAST", "0") + "if 'num_workers' in flags and float(flags['train_for_seconds']) < 30:\n"
    source += "    (folder / 'benchmark.json').write_text(json.dumps({'steady_fps': 0.0}))\n"
    trials = trials_of(source)
    trials.first()
    assert trials.measure((("num_workers", 3),), 1) == 300.0
    assert not trials.problems


def test_a_command_that_does_not_end_is_ended(monkeypatch, trials_of):
    monkeypatch.setattr(module, "_PATIENCE_S", -29.0)
    with pytest.raises(SessionError, match="did not end within"):
        trials_of("import time; print('begun', flush=True); time.sleep(1000)", 360.0).first()


def test_a_program_that_is_not_there_is_told_of(tmp_path):
    with pytest.raises(SessionError, match="cannot start no_such_program"):
        Trials(["no_such_program"], tmp_path, 600.0).first()


def test_lines_that_were_cut_off_are_left_out(tmp_path):
    line = json.dumps({"command": ["c"], "setting": [["inference", "worker"]], "round": 1, "fps": 5.0})
    (tmp_path / "trials.jsonl").write_text(f"{line}\n{line[:20]}\n[]\n")
    assert Trials(["c"], tmp_path, 60.0).kept == [Measured((("inference", "worker"),), 1, 5.0)]
