"""`sample-profiler compare` and `diff`, with a stand-in for training that leaves steady parts of known throughput."""

from __future__ import annotations

import json
import sys

import pytest

from sample_profiler.cli.main import main

TRAINER = """
import json, sys
from pathlib import Path
from sample_profiler.profiling import Timing
from sample_profiler.profiling.record_file import RecordFile
from sample_profiler.profiling.session import read_live, steady_path

flags = dict(flag.lstrip("-").split("=", 1) for flag in sys.argv[1:])
if flags.get("speed") == "none":
    print("this cannot be trained")
    raise SystemExit(1)
folder = Path(flags["train_dir"]) / flags["experiment"]
(folder / "profile" / "live").mkdir(parents=True, exist_ok=True)
for name in ("Runner", "Learner_0"):
    timing = Timing(name + " profile")
    file = RecordFile(folder / "profile" / "live" / (name + ".1.rec"), process_name=name, ring_bytes=0)
    file.attach(timing, name)
    for _ in range(int(flags.get("passes", 10))):
        with timing.add_time("main_loop"), timing.add_time("train"), timing.add_time("backward"):
            pass
    file.set_gauge("frames", float(flags["speed"]))
    file.close()
session = read_live(folder, with_events=False)
for record in session.processes:
    record.trees[record.name].statistics.total_ns = 10**9
session.machine["host"] = flags.get("host", "here")
session.save(steady_path(folder))
print("trained")
"""


@pytest.fixture
def trainer(tmp_path):
    path = tmp_path / "trainer.py"
    path.write_text(TRAINER)
    return path


@pytest.fixture
def compare(trainer, tmp_path):
    def run(a, b, *options, num_pairs=8):
        own = ["--runs", str(num_pairs), "--a", a, "--b", b, "--output", str(tmp_path / "out"), *options]
        return main(["compare", *own, "--", sys.executable, str(trainer)])

    return run


def test_runs_take_turns_and_the_faster_one_is_named(compare, tmp_path, capsys):
    assert compare("--speed=1000", "--speed=1300 --passes=20", "--blocks", "Learner/train/backward") == 0
    output = capsys.readouterr().out
    assert "pair 8: A 1,000, B 1,300 frames/s" in output
    assert "B is faster: +30.0 %" in output
    assert "p = 0.016" in output, "2 of 256, corrected for two tests"
    assert output.index("passes per 1,000 frames") < output.index("time per frame"), "counts carry no noise"
    document = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert document["throughput"]["ratio"] == pytest.approx(1.3)
    assert document["tested"] == ["Learner/train/backward"]


def test_complete_runs_are_not_made_again(compare, tmp_path, capsys):
    assert compare("--speed=1000", "--speed=1000", num_pairs=2) == 0
    marks = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*/profile/steady.json")}
    assert len(marks) == 4
    assert compare("--speed=1000", "--speed=1000", num_pairs=3) == 0
    assert {path: path.stat().st_mtime_ns for path in marks} == marks
    assert compare("--speed=900", "--speed=1000", num_pairs=1) == 0
    assert "A 900, B 1,000" in capsys.readouterr().out, "with other flags they are"


def test_a_run_that_fails_ends_the_comparison_with_its_last_words(compare, capsys):
    assert compare("--speed=1000", "--speed=none") == 2
    assert "ended with status 1:\nthis cannot be trained" in capsys.readouterr().err


def test_a_block_that_is_not_there_is_told_with_those_that_are(compare, capsys):
    assert compare("--speed=1", "--speed=1", "--blocks", "forward", num_pairs=1) == 2
    assert "no blocks are called forward; there are Learner/train" in capsys.readouterr().err


def test_a_difference_between_two_runs_can_fail_a_build(compare, tmp_path, capsys):
    assert compare("--speed=1000", "--speed=900", num_pairs=1) == 0
    a, b = (str(tmp_path / "out" / name) for name in ("a_00", "b_00"))
    capsys.readouterr()
    assert main(["diff", a, b]) == 0
    assert "900 frames/s over 1 s, -10.0 %" in capsys.readouterr().out
    assert main(["diff", a, b, "--fail-over", "5%"]) == 1
    assert main(["diff", b, a, "--fail-over", "5%"]) == 0


def test_runs_of_different_machines_are_compared_only_if_asked(compare, tmp_path, capsys):
    assert compare("--speed=1000", "--speed=900 --host=there", num_pairs=1) == 0
    a, b = (str(tmp_path / "out" / name) for name in ("a_00", "b_00"))
    capsys.readouterr()
    assert main(["diff", a, b]) == 2
    assert "host here and there" in capsys.readouterr().err
    assert main(["diff", a, b, "--allow-different-machines"]) == 0


def test_folders_without_a_steady_part_are_told(tmp_path, capsys):
    assert main(["diff", str(tmp_path), str(tmp_path)]) == 2
    assert "steady.json cannot be read" in capsys.readouterr().err
