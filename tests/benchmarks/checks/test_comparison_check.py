"""Comparisons are drawn from recorded runs as the command makes them."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from benchmarks.checks import comparison_check
from benchmarks.checks.comparison_check import both_settings, count, find_faults, main, run, same_setting
from sample_profiler.analysis.comparing.costs import run_costs
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session.session import Session, read_live
from sample_profiler.run_folder import RunFolder


def test_neighbours_are_pairs_and_every_second_one_is_turned_round():
    numbers = list(range(1, 17))
    first, second, *_ = same_setting(numbers, [100 + number for number in numbers], random.Random(3))
    assert first == [(1, 2), (4, 3), (5, 6), (8, 7), (9, 10), (12, 11), (13, 14), (16, 15)]
    assert second == [(100 + a, 100 + b) for a, b in first], "the slow setting is compared with itself, too"


def test_comparisons_have_eight_different_pairs_each_in_the_order_of_time_and_no_run_is_in_two():
    comparisons = same_setting(range(30), range(30), random.Random(3))
    assert len(comparisons) == 40
    for pairs in comparisons:
        runs = [sorted(pair) for pair in pairs]
        assert len(runs) == 8 and sorted(runs) == runs
        assert all(low % 2 == 0 and high == low + 1 for low, high in runs), "pairs are disjoint"
        assert len({low for low, _ in runs}) == 8
    assert len({str(pairs) for pairs in comparisons}) > 30


def test_an_interrupted_recording_is_compared_as_far_as_it_goes():
    assert all(len(pairs) == 8 for pairs in both_settings(range(1, 17), range(1, 16), random.Random(3)))


def noise(rng, mean, num=30, deviation=0.03):
    return [mean * rng.lognormvariate(0, deviation) for _ in range(num)]


def test_what_differs_is_found_and_what_does_not_is_not():
    rng = random.Random(3)
    plain, slow = noise(rng, 1000), noise(rng, 900)
    assert count(both_settings(plain, slow, rng))["lower"] == 40
    same = count(same_setting(plain, slow, rng))
    assert same["lower"] + same["higher"] <= 4


def test_of_recordings_without_a_difference_few_have_more_errors_than_are_allowed():
    too_many = total = 0
    for seed in range(60):
        rng = random.Random(seed)
        outcomes = count(same_setting(noise(rng, 1000), noise(rng, 900), rng))
        total += outcomes["lower"] + outcomes["higher"]
        too_many += outcomes["lower"] + outcomes["higher"] > 4
    assert total <= 0.06 * 40 * 60, "the level of the test is 5 %"
    assert too_many <= 6, f"{too_many} of 60 recordings would fail a test that is right"


def test_a_machine_that_slows_down_favours_nobody():
    runs = [1000 * 0.99**number for number in range(30)]
    same = count(same_setting(runs, runs, random.Random(3)))
    assert same["lower"] + same["higher"] == 0


def test_few_runs_are_refused_since_all_comparisons_would_be_the_same(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--runs", "32", "--output", str(tmp_path / "runs.json")])
    assert "--runs 32: 48 or more are needed" in capsys.readouterr().err


@pytest.fixture
def train(monkeypatch):
    """Leave a run whose benchmark.json has another figure than its steady part, if it has one."""
    figures = []

    def leave(argv, *, is_steady):
        folder = Path(next(flag.partition("=")[2] for flag in argv if flag.startswith("--train_dir=")), "run")
        RunFolder(folder).live().path.mkdir(parents=True)
        for name in ("Runner", "Learner_0"):
            timing = Timing(f"{name} profile")
            file = RecordFile(RunFolder(folder).live().record(name, 1), process_name=name, ring_bytes=0)
            file.attach(timing, name)
            with timing.add_time("main_loop"), timing.add_time("train"):
                pass
            file.set_gauge(f"{name}/frames", 700.0)
            file.close()
        (folder / "benchmark.json").write_text(json.dumps({"steady_fps": 1.0}))
        if is_steady:
            session = read_live(folder, with_events=False)
            session.save(RunFolder(folder).steady)
            figures.append(run_costs(Session.load(RunFolder(folder).steady)).fps)
        return subprocess.CompletedProcess(argv, 0, "", "")

    def install(*, is_steady=True):
        monkeypatch.setattr(
            comparison_check.subprocess, "run", lambda argv, **_: leave(argv, is_steady=is_steady), raising=True
        )
        return figures

    return install


def test_a_run_counts_by_the_figure_that_the_command_tests(train):
    figures = train()
    assert run(1.0, 0.0) == figures[0] != 1.0


def test_a_run_that_was_over_before_it_was_steady_is_told(train):
    train(is_steady=False)
    with pytest.raises(SystemExit, match="give --seconds for longer runs"):
        run(1.0, 0.0)


def test_recordings_of_another_figure_are_not_gone_on_with(tmp_path, capsys):
    recorded = tmp_path / "runs.json"
    recorded.write_text(json.dumps({"seconds": 12.0, "env_ms": 0.005, "plain": [1.0], "slow": []}))
    with pytest.raises(SystemExit):
        main(["--output", str(recorded)])
    assert "has another figure" in capsys.readouterr().err


@pytest.mark.parametrize("change", [-0.08, -0.10, -0.12])
def test_ten_per_cent_that_are_found_are_as_wanted(change):
    assert find_faults(change, num_errors=4, share=0.8, env_ms=0.005) == []
    assert len(find_faults(change, num_errors=5, share=0.7, env_ms=0.005)) == 2


@pytest.mark.parametrize(
    ("change", "cure"), [(-0.25, "--env_ms=0.0017"), (-0.05, "--env_ms=0.011"), (0.01, "a larger --env_ms")]
)
def test_another_slow_down_than_that_shows_nothing_however_often_it_is_found(change, cure):
    (fault,) = find_faults(change, num_errors=0, share=1.0, env_ms=0.005)
    assert "-13% to -7% are wanted" in fault and cure in fault


@pytest.mark.parametrize(("factor", "status"), [(0.9, 0), (0.6, 1)])
def test_the_status_tells_whether_the_check_shows_anything(tmp_path, capsys, factor, status):
    rng = random.Random(3)
    runs = [1000 * rng.uniform(0.99, 1.01) for _ in range(30)]
    setting = {"figure": comparison_check._FIGURE, "seconds": 12.0, "env_ms": 0.008}
    setting["flags"] = list(comparison_check._FLAGS)
    setting["machine"] = comparison_check.Machine.this().to_dict()
    recorded = tmp_path / "runs.json"
    recorded.write_text(json.dumps({**setting, "plain": runs, "slow": [factor * fps for fps in runs]}))
    assert main(["--output", str(recorded)]) == status
    assert ("NOT as wanted" in capsys.readouterr().out) == bool(status)
