"""What comparisons of frameworks compute from their runs."""

from __future__ import annotations

import pytest

from benchmarks.measuring.comparison import (
    append,
    compare,
    make_run,
    order_of_arms,
    read_runs,
    steady_rate,
    summarize,
    whole_rate,
)
from benchmarks.measuring.comparison_tasks import TASKS


def test_rates_of_a_run_that_begins_slowly():
    # 10 s to start, 100 frames/s until 400 frames, then 200 frames/s.
    points = [[10 + t, 100 * t] for t in range(1, 5)] + [[14 + t, 400 + 200 * t] for t in range(1, 7)]
    assert whole_rate(points) == 1600 / 20
    assert steady_rate(points) == 200, "from 400 frames on, a quarter of all"


def test_a_run_of_one_training_step_has_no_steady_part():
    with pytest.raises(ValueError, match="run for longer"):
        steady_rate([[12.0, 2048]])


def test_arms_take_turns_forth_and_back():
    orders = [order_of_arms(["a", "b", "c"], number) for number in range(4)]
    assert orders == [["a", "b", "c"], ["c", "b", "a"]] * 2


def linear(rate, seconds=100.0):
    return [[t, rate * t] for t in range(1, int(seconds) + 1)]


def test_ratios_come_from_the_rounds_that_both_have(tmp_path):
    path = tmp_path / "results" / "versus.jsonl"
    assert read_runs(path) == []
    for number, (slow, fast) in enumerate([(100, 210), (200, 380), (50, 100)]):
        append(path, make_run("slow", number, linear(slow), memory_mib=100.0, load=0.1))
        append(path, make_run("fast", number, linear(fast), memory_mib=50.0, load=0.1))
    append(path, make_run("slow", 3, linear(1), memory_mib=100.0, load=0.1))
    runs = read_runs(path)
    assert [run.arm for run in runs] == ["slow", "fast"] * 3 + ["slow"]
    ratio = compare(runs, "fast", "slow", "steady")
    assert ratio.lower <= ratio.estimate <= ratio.upper
    assert (ratio.lower, ratio.upper) == pytest.approx((1.9, 2.1))
    assert compare(runs, "fast", "slow", "memory_mib").estimate == pytest.approx(0.5)
    assert compare(runs, "fast", "missing", "steady") is None
    table = summarize(runs, ["slow", "fast"], {"fast": 420.0})
    assert "| fast | 3 | 210 (100 to 380) | 2.00 (1.90 to 2.10) |" in table
    assert "| 50% |" in table


def test_long_curves_are_thinned_and_keep_their_ends():
    run = make_run("a", 0, linear(10, seconds=5000), memory_mib=0.0, load=0.0)
    assert len(run.points) <= 201
    assert (run.points[0], run.points[-1]) == ([1, 10], [5000, 50000])
    assert run.first_step_s == 1


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_everybody_is_compared_with_sample_factory_and_our_plain_setting_has_no_flags_for_speed(task):
    assert next(iter(task.arms)) == "Sample Factory"
    assert not any(flag.startswith(("--precision", "--inference", "--compile")) for flag in task.arms["ours"].flags)
