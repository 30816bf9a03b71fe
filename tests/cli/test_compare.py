"""`sample-profiler compare` and `diff`, with a stand-in for training that leaves steady parts of known throughput."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sample_profiler.cli.main import main

TRAINER = """
import json, sys
from pathlib import Path
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session.session import read_live
from sample_profiler.run_folder import RunFolder

flags = dict(flag.lstrip("-").split("=", 1) for flag in sys.argv[1:])
if flags.get("speed") == "none":
    print("this cannot be trained")
    raise SystemExit(1)
if flags.get("speed") == "elsewhere":
    print("nobody told me where to")
    raise SystemExit(0)
folder = Path(flags["train_dir"]) / flags["experiment"]
(folder / "profile" / "live").mkdir(parents=True, exist_ok=True)
for name in ("Runner", "Learner_0"):
    timing = Timing(name + " profile")
    file = RecordFile(folder / "profile" / "live" / (name + ".1.rec"), process_name=name, ring_bytes=0)
    file.attach(timing, name)
    for _ in range(int(flags.get("passes_of_" + flags["experiment"], flags.get("passes", 10)))):
        with timing.add_time("main_loop"), timing.add_time("train"), timing.add_time("backward"):
            pass
    file.set_gauge(name + "/frames", float(flags["speed"]))
    file.close()
session = read_live(folder, with_events=False)
for record in session.processes:
    record.trees[record.name].statistics.total_ns = 10**9
session.machine["host"] = flags.get("host", "here")
session.save(RunFolder(folder).steady)
if "seconds" in flags:
    number = int(flags["experiment"][-2:])
    seconds = float(flags["seconds"]) + number
    never = number < int(flags.get("failures", 0))
    reached = {"process_s": None if never else seconds, "frames": None if never else round(100 * seconds)}
    entries = [{"threshold": flags["thresholds"], "policy": 0, **reached}]
    document = {"process_s": 90.0 if never else seconds + 1, "frames": {"0": 9000}, "thresholds": entries}
    (folder / "benchmark.json").write_text(json.dumps(document))
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
    assert output.index("passes per 1,000 frames") < output.index("B is faster"), "counts carry no noise"
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


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["nope"], "the training command cannot be started: nope: No such file or directory: give one"),
        (["/"], "the training command cannot be started: /: Permission denied: give one"),
        (["--output", "/proc/none", "nope"], "/proc/none: No such file or directory"),
        (["--output", "file", "nope"], "file: Not a directory"),
    ],
)
def test_what_cannot_be_started_or_written_is_told_in_a_line(tmp_path, monkeypatch, words, reason, capsys):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert main(["compare", "--runs=1", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"sample-profiler compare: {reason}"), line


def test_a_block_that_is_not_there_is_told_after_one_pair_with_those_that_are(compare, tmp_path, capsys):
    assert compare("--speed=1", "--speed=1", "--blocks", "forward", num_pairs=8) == 2
    assert "no blocks are called forward; there are Learner/train" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a_00", "b_00"], "at once"


def test_kept_runs_are_told_and_a_mark_that_was_cut_off_counts_as_none(compare, tmp_path, capsys):
    assert compare("--speed=1000", "--speed=1000", num_pairs=1) == 0
    assert "kept from" not in capsys.readouterr().out
    mark = tmp_path / "out" / "b_00" / "compared.json"
    mark.write_text(mark.read_text()[:20])
    assert compare("--speed=1000", "--speed=1000", num_pairs=1) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "kept from" in line]
    assert len(told) == 1 and told[0].startswith(f"{tmp_path / 'out' / 'a_00'}: kept from 2")


def test_a_mark_of_somebody_else_counts_as_none(compare, tmp_path, capsys):
    mark = tmp_path / "out" / "a_00" / "compared.json"
    mark.parent.mkdir(parents=True)
    mark.write_text("[" * 100_000)
    assert compare("--speed=100", "--speed=200", num_pairs=1) == 0
    assert "kept from" not in capsys.readouterr().out
    assert json.loads(mark.read_text()), "made anew"


def test_kept_runs_of_another_machine_are_compared_only_if_asked(compare, capsys):
    flags = ("--speed=1000", "--speed=900 --host=there")
    assert compare(*flags, num_pairs=1) == 2
    assert "different machines (host here and there): give another --output" in capsys.readouterr().err
    assert compare(*flags, "--allow-different-machines", num_pairs=1) == 0


def test_the_run_of_an_earlier_comparison_is_not_that_of_a_command_that_leaves_none(compare, capsys):
    assert compare("--speed=100", "--speed=200", num_pairs=1) == 0
    assert compare("--speed=elsewhere", "--speed=1", num_pairs=1) == 2
    assert "left no run in" in capsys.readouterr().err


def test_a_command_that_leaves_no_run_is_told_so(compare, capsys):
    assert compare("--speed=elsewhere", "--speed=1") == 2
    error = capsys.readouterr().err
    assert "left no run in" in error and "takes --train_dir and --experiment:\nnobody told me where to" in error


def test_one_pair_has_no_interval(compare, tmp_path, capsys):
    assert compare("--speed=1000", "--speed=900", num_pairs=1) == 0
    output = capsys.readouterr().out
    assert "It cannot be told from 1 pair which is faster: -10.0 %. About 5 more pairs would tell" in output
    assert "interval" not in output
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["throughput"]["interval"] is None


@pytest.mark.parametrize("num_pairs", [3, 4])
def test_counts_are_compared_once_there_are_enough_pairs(compare, num_pairs, capsys):
    assert compare("--speed=1000", "--speed=1000 --passes=20", num_pairs=num_pairs) == 0
    output = capsys.readouterr().out
    assert ("passes per 1,000 frames" in output) == (num_pairs == 4)
    assert ("are compared from 4 pairs on" in output) == (num_pairs == 3)


def test_counts_that_are_no_higher_in_one_of_the_runs_are_not_told(compare, capsys):
    assert compare("--speed=1000", "--speed=1000 --passes=20 --passes_of_b_03=9", num_pairs=4) == 0
    assert "Passes through blocks per 1,000 frames: no difference" in capsys.readouterr().out


def test_chosen_blocks_take_more_pairs(compare, tmp_path, capsys):
    blocks = "Learner/train/backward,Learner/train,Learner/train"
    assert compare("--speed=1000", "--speed=1300", "--blocks", blocks, num_pairs=6) == 0
    output = capsys.readouterr().out
    assert "p = 0.094, 6 pairs). About 1 more pair would tell" in output, "2 of 64, corrected for three tests"
    (row,) = [line for line in output.splitlines() if line.startswith("Learner/train/backward ") and "p = " in line]
    assert "would tell" in row
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["tested"] == [
        "Learner/train/backward",
        "Learner/train",
    ]


@pytest.mark.parametrize("which", ["a", "b"])
def test_flags_whose_quotes_are_not_closed_are_refused_before_anything_runs(compare, which, tmp_path, capsys):
    flags = {"a": "--speed=1", "b": "--speed=1"} | {which: "--speed='1"}
    assert compare(**flags) == 2
    error = capsys.readouterr().err
    assert f'--{which} cannot be split into flags: No closing quotation in "--speed=\'1"' in error
    assert not (tmp_path / "out").exists()


def test_what_a_run_says_may_be_any_bytes(tmp_path, capsys):
    command = ["compare", "--runs=1", f"--output={tmp_path}", "--", "sh", "-c", "printf '\\377'; exit 3"]
    assert main(command) == 2
    assert "ended with status 3:\n\\xff" in capsys.readouterr().err


def test_times_until_runs_are_good_enough_are_compared_from_the_start_of_their_processes(compare, tmp_path, capsys):
    assert compare("--speed=1 --seconds=20", "--speed=1 --seconds=10", "--metric", "time_to=475") == 0
    output = capsys.readouterr().out
    assert "pair 1: A 20.0 s and 2,000 frames, B 10.0 s and 1,000 frames" in output
    assert "A                8 of 8  23.0 s   2,300" in output
    assert "B gets there sooner: 0.57 × as long (95 % interval 0.53 to 0.61, p = 0.008" in output in output
    assert "did not get there" not in output
    document = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert document["goal"] == "reward>=475"
    assert document["times"][0] == [
        {"seconds": 20.0, "frames": 2000, "is_reached": True},
        {"seconds": 10.0, "frames": 1000, "is_reached": True},
    ]
    command = json.loads((tmp_path / "out" / "a_00" / "compared.json").read_text())
    assert command[-4:-2] == ["--thresholds=reward>=475", "--stop_at=reward>=475"]


def test_runs_that_never_get_there_count_as_longer_than_they_went_on(compare, capsys):
    flags = ("--speed=1 --seconds=10", "--speed=1 --seconds=10 --failures=7")
    assert compare(*flags, "--metric=time_to=len>=300") == 0
    output = capsys.readouterr().out
    assert "pair 1: A 10.0 s and 1,000 frames, B not in 90.0 s and 9,000 frames" in output
    assert "B             1 of 8  not half  not half" in output
    assert "B gets there later: p = 0.016, 8 pairs\nA run that did not get there counts as" in output


def test_few_pairs_of_runs_tell_nothing_of_times(compare, capsys):
    assert compare("--speed=1 --seconds=10", "--speed=1 --seconds=90", "--metric=time_to=475", num_pairs=2) == 0
    assert "It cannot be told yet which gets there sooner: 8.63 × as long (p = 0.500, 2 pairs)" in (
        capsys.readouterr().out
    )


def test_a_run_that_does_not_tell_when_it_got_there_is_told(compare, capsys):
    assert compare("--speed=1", "--speed=1", "--metric=time_to=475", num_pairs=1) == 2
    assert "benchmark.json does not tell when the run got to reward>=475 (FileNotFoundError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ("time_to", "'time_to': give throughput, or time_to=CONDITION with one condition"),
        ("time_to=", "'time_to=': give throughput"),
        ("time_to=1,2", "'time_to=1,2': give throughput"),
        ("time_to=reward>1", "the condition has 'reward>1', which is no condition: it compares by >= or <=: give"),
        ("fps", "'fps': give throughput"),
    ],
)
def test_metrics_that_are_none_are_refused(compare, metric, reason, capsys):
    with pytest.raises(SystemExit) as caught:
        compare("--speed=1", "--speed=1", f"--metric={metric}")
    assert caught.value.code == 2
    assert reason in capsys.readouterr().err


def test_blocks_are_compared_with_throughput_alone(compare, capsys):
    assert compare("--speed=1", "--speed=1", "--metric=time_to=475", "--blocks=env_step") == 2
    assert "leave out --blocks or --metric" in capsys.readouterr().err
