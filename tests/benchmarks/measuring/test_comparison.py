"""What comparisons of frameworks compute from their runs."""

from __future__ import annotations

import pytest

from benchmarks.measuring.frameworks.comparison import (
    Run,
    Turn,
    append,
    check_is_same,
    first_step_s,
    make_run,
    order_of_arms,
    read_runs,
    steady_rate,
    thin,
    turns,
    whole_rate,
)
from benchmarks.measuring.frameworks.comparison_summary import pair_ratios, summarize, to_markdown
from benchmarks.measuring.frameworks.comparison_tasks import TASKS


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


def run_of(arm: str, number: int, rate: float, memory_mib: float = 100.0) -> Run:
    about = {"task": "task", "flags": ["--flag"], "seconds": 120.0, "machine": "processor, 2 cores"}
    return make_run(Turn(arm, number, 0), linear(rate), memory_mib=memory_mib, load=0.1, **about)


def test_ratios_come_from_the_rounds_that_both_have(tmp_path):
    path = tmp_path / "results" / "versus.jsonl"
    assert read_runs(path) == []
    for number, (slow, fast) in enumerate([(100, 210), (200, 380), (50, 100)]):
        append(path, run_of("slow", number, slow))
        append(path, run_of("fast", number, fast, memory_mib=50.0))
    append(path, run_of("slow", 3, 1))
    runs = read_runs(path)
    assert [run.arm for run in runs] == ["slow", "fast"] * 3 + ["slow"]
    assert pair_ratios(runs, "fast", "slow", "steady") == {0: 2.1, 1: 1.9, 2: 2.0}
    assert pair_ratios(runs, "fast", "missing", "steady") == {}
    document = summarize(runs, ["slow", "fast", "missing"], ["slow"], {"fast": 420.0})
    assert list(document["arms"]) == ["slow", "fast"]
    assert document["arms"]["slow"]["share_of_limit"] is None
    ratios = document["ratios"]["fast / slow"]
    assert ratios["steady"]["pairs"] == [2.1, 1.9, 2.0]
    interval = ratios["steady"]["interval"]
    assert (interval["lower"], interval["upper"]) == pytest.approx((1.9, 2.1))
    assert ratios["memory_mib"]["interval"]["estimate"] == pytest.approx(0.5)
    table = to_markdown(document)
    assert "| fast | 3 | 210 (100 to 380) |" in table
    assert "| fast / slow | 2.00 (1.90 to 2.10) |" in table
    assert "| 50% |" in table


def test_one_pair_has_no_interval():
    document = summarize([run_of("slow", 0, 100), run_of("fast", 0, 200)], ["slow", "fast"], ["slow"], {})
    assert document["ratios"]["fast / slow"]["steady"] == {"pairs": [2.0], "interval": None}
    assert "| 2.00 |" in to_markdown(document)


def test_memory_that_was_not_seen_gives_no_ratio():
    runs = [run_of(arm, number, 100, memory_mib=0.0) for arm in ("slow", "fast") for number in range(2)]
    document = summarize(runs, ["slow", "fast"], ["slow"], {})
    assert document["ratios"]["fast / slow"]["memory_mib"] == {"pairs": [], "interval": None}
    assert "| – |" in to_markdown(document)


@pytest.mark.parametrize("count", [1, 2, 199, 200, 201, 399, 400, 5000])
def test_long_curves_are_thinned_and_keep_their_ends(count):
    points = linear(10, seconds=count)
    thinned = thin(points)
    assert len(thinned) <= 200
    assert (thinned[0], thinned[-1]) == (points[0], points[-1])
    assert len(thinned) == count or len(thinned) > 90
    assert first_step_s(points) == 1


def test_an_interrupted_comparison_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "versus.jsonl"
    every_turn = list(turns(["a", "b"], 2, []))
    assert every_turn == [Turn("a", 0, 0), Turn("b", 0, 1), Turn("b", 1, 0), Turn("a", 1, 1)]
    for turn in every_turn[:3]:
        append(path, run_of(turn.arm, turn.round, 100))
    done = read_runs(path)
    assert list(turns(["a", "b"], 2, done)) == every_turn[3:]
    assert list(turns(["a", "b"], 3, done)) == [*every_turn[3:], Turn("a", 2, 0), Turn("b", 2, 1)]


@pytest.mark.parametrize(
    "now",
    [
        (["--other"], 120.0, "processor, 2 cores"),
        (["--flag"], 60.0, "processor, 2 cores"),
        (["--flag"], 120.0, "another"),
    ],
)
def test_runs_that_were_made_otherwise_are_not_mixed(now):
    done = [run_of("a", 0, 100)]
    check_is_same(done, "a", ["--flag"], 120.0, "processor, 2 cores")
    check_is_same(done, "b", *now)
    with pytest.raises(ValueError, match="another --output"):
        check_is_same(done, "a", *now)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_everybody_is_compared_with_sample_factory_and_our_plain_setting_has_no_flags_for_speed(task):
    assert next(iter(task.arms)) == "sample_factory"
    assert not any(flag.startswith(("--precision", "--inference", "--compile")) for flag in task.arms["ours"].flags)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_ours_and_sample_factory_get_the_same_flags_and_no_path_is_written_down(task):
    for arm, setting in task.arms.items():
        flags = task.flags_of(arm)
        assert setting.framework == "sb3" or tuple(flags[: len(task.flags)]) == task.flags
        assert not any("/" in flag for flag in flags)
