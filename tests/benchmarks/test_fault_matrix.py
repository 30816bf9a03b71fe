"""What the fault matrix keeps of each case, what it makes again, and what all of it comes to."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from benchmarks import fault_matrix
from benchmarks.fault_matrix import main, time_limit
from benchmarks.measuring.fault_table import decide, describe_throughput, to_row
from harness.fault_cases import Plan, all_plans
from harness.faults import Case, run_case

SMALL = ("--rounds=1", "--faults", "kill", "--victims", "RolloutWorker_w0", "Runner", "--modes", "async", "--kills=2")
ROOT = Path(__file__).parents[2]
PLANS = [plan for plan in all_plans(1, 2) if plan.fault == "kill" and plan.mode == "async"]


@pytest.fixture
def played(monkeypatch):
    """Stand in for the cases; return those that were played, and what is to come of each."""
    plans, problems = [], {}

    def play(plan, undisturbed):
        plans.append(plan)
        case = Case(plan, ended_s=4.0 + len(plans)) if not plan.is_replaced else Case(plan, back_s=2.0)
        if plan.is_replaced:
            case.before_fps, case.after_fps = (90.0, 110.0), 97.0
        for kind in problems.get(plan.victim, ()):
            case.add(kind, f"a {kind}")
        return case

    monkeypatch.setattr(fault_matrix, "play", play)
    return plans, problems


def lines_of(path):
    return [json.loads(text) for text in path.read_text().splitlines()]


def test_each_case_is_a_line_with_machine_and_commit_and_the_table_tells_all(played, tmp_path, capsys):
    path = tmp_path / "new" / "faults.jsonl"
    assert main([*SMALL, f"--output={path}"]) == 0
    lines = lines_of(path)
    assert [(line["victim"], line["number"]) for line in lines] == [
        ("Runner", 0),
        ("RolloutWorker_w0", 0),
        ("RolloutWorker_w0", 1),
    ]
    assert all(line["machine"] and line["commit"] for line in lines)
    output = capsys.readouterr().out
    assert "| kill | RolloutWorker_w0 | async | 2 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 2.0 | 0.97 to 0.97 |" in output
    assert "| kill | Runner | async | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 5.0 |  |" in output
    assert "| all |  |  | 3 | 0 |" in output
    assert "2 of 2 runs whose worker was replaced (100%)" in output and "3 of 3 cases are there\n" in output
    assert output.endswith(path.with_suffix(".md").read_text().removeprefix("# Faults\n\n") + "\n")


def test_what_is_there_is_not_made_again_and_a_line_that_was_cut_off_is(played, tmp_path, capsys):
    plans, _ = played
    path = tmp_path / "faults.jsonl"
    main([*SMALL, f"--output={path}"])
    path.write_text(path.read_text()[:-30])  # as a kill leaves it
    plans.clear()
    assert main([*SMALL, f"--output={path}"]) == 0
    assert [(plan.victim, plan.number) for plan in plans] == [("RolloutWorker_w0", 1)]
    assert "3 of 3 cases are there" in capsys.readouterr().out


def test_when_the_time_is_up_the_next_call_goes_on(played, tmp_path, capsys):
    plans, _ = played
    path = tmp_path / "faults.jsonl"
    assert main([*SMALL, f"--output={path}", "--seconds=0"]) == 3
    assert plans == []
    assert "0 of 3 cases are there: the same command goes on with the others" in capsys.readouterr().out
    assert main([*SMALL, f"--output={path}"]) == 0


def test_problems_fail_by_their_kind_and_are_made_again_when_asked(played, tmp_path, capsys):
    plans, problems = played
    path = tmp_path / "faults.jsonl"
    problems["Runner"] = ["hang", "orphan", "orphan"]
    assert main([*SMALL, f"--output={path}"]) == 1
    assert "| kill | Runner | async | 1 | 1 | 1 | 1 | 0 | 0 |" in capsys.readouterr().out
    problems.clear()
    plans.clear()
    assert main([*SMALL, f"--output={path}"]) == 1
    assert plans == []
    assert main([*SMALL, f"--output={path}", "--again"]) == 0
    assert [plan.victim for plan in plans] == ["Runner"]
    output = capsys.readouterr().out
    assert "1 plays are beside the latest of a case; 1 of them failed for other reasons than throughput" in output


def test_a_case_that_takes_for_ever_is_a_line_too(monkeypatch, tmp_path):
    monkeypatch.setattr(fault_matrix, "_LONGEST_CASE_S", 0.05)

    class Stuck:
        def fps(self, *_):
            time.sleep(60)

    case = fault_matrix.play(Plan("kill", "RolloutWorker_w0", "async"), Stuck())
    ((kind, text),) = case.problems
    assert kind == "hang" and "the case was not over after 0.05 s" in text


def runs_of(process):
    """Return the runs that a matrix has started; it also asks git for something."""
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(process.pid).children()
        return [child for child in children if "injected_run.py" in " ".join(child.cmdline())]
    return []


def test_a_request_to_end_ends_what_a_case_has_started_and_leaves_no_line(tmp_path):
    output = tmp_path / "faults.jsonl"
    command = [sys.executable, "-m", "benchmarks.fault_matrix", "--faults", "kill", "--victims", "Runner"]
    with subprocess.Popen([*command, "--output", output], cwd=ROOT, stdout=subprocess.PIPE) as process:
        while not (runs := runs_of(process)) and process.poll() is None:
            time.sleep(0.02)
        process.terminate()
        assert process.wait(60) == 143
    _, alive = psutil.wait_procs(runs, timeout=10)  # killed, but it may take a moment until the kernel has let go of it
    assert len(runs) == 1 and not alive and not output.exists()


def test_a_time_limit_that_is_kept_leaves_the_one_around_it():
    with pytest.raises(TimeoutError, match=r"after 0\.2 s"), time_limit(0.2):
        with time_limit(60):
            pass
        time.sleep(60)


def play_of(throughput, number=0, problems=()):
    """Return the line of a play; slow where its throughput is."""
    slow = [("throughput", "slow")] if throughput is not None and throughput < 0.95 else []
    plan = {"fault": "kill", "victim": "RolloutWorker_w0", "mode": "async", "number": number}
    problems = [*slow, *((kind, f"a {kind}") for kind in problems)]
    return {**plan, "throughput": throughput, "problems": problems, "before_fps": (100.0, 90.0), "again_fps": ()}


@pytest.mark.parametrize(
    ("plays", "throughput", "kinds"),
    [
        ([play_of(0.8)], 0.8, ["throughput"]),
        ([play_of(0.8), play_of(1.0), play_of(0.97)], 0.97, []),
        ([play_of(0.8), play_of(1.2), play_of(0.94)], 0.94, ["throughput"]),
        ([play_of(1.0), play_of(0.8), play_of(0.8)], 0.8, ["throughput"]),
        ([play_of(0.9), play_of(1.1, problems=["orphan"])], 1.1, ["orphan"]),
        ([play_of(0.7, problems=["orphan"]), play_of(1.1)], 1.1, []),
        ([play_of(0.8), play_of(None)], None, []),
    ],
)
def test_the_median_of_all_plays_decides_throughput_and_the_latest_all_else(plays, throughput, kinds):
    (line,) = decide(plays).values()
    assert line["throughput"] == throughput
    assert [kind for kind, _ in line["problems"]] == kinds


def test_a_case_that_is_only_slow_is_played_three_times(monkeypatch, tmp_path, capsys):
    fps = {0: iter([80.0, 100.0, 97.0]), 1: iter([80.0, 111.0, 80.0]), 2: iter([95.0])}

    def play(plan, undisturbed):
        case = Case(plan, before_fps=(110.0, 90.0), after_fps=next(fps[plan.number]))
        if case.is_slower:
            case.add("throughput", "slow")
        return case

    monkeypatch.setattr(fault_matrix, "play", play)
    flags = ("--rounds=1", "--faults", "kill", "--victims", "RolloutWorker_w0", "--modes", "async", "--kills=3")
    path = tmp_path / "faults.jsonl"
    assert main([*flags, f"--output={path}"]) == 1
    assert sorted(line["number"] for line in lines_of(path)) == [0, 0, 0, 1, 1, 1, 2]
    output = capsys.readouterr().out
    assert "4 plays are beside the latest of a case; 0 of them failed for other reason" in output
    assert "2 of 3 runs whose worker was replaced (67%)" in output and "\n1 cases have problems" in output


def test_the_share_of_runs_that_are_as_fast_as_before_is_told_beside_how_far_chance_goes():
    plays = [play_of(ratio, number) for number, ratio in enumerate((None, 1.02, 0.95, 0.6, 0.9))]
    plays.append(play_of(1.01, 4) | {"again_fps": (100.0, 101.0)})
    text = describe_throughput(decide(plays).values())
    assert text.startswith(
        "3 of 4 runs whose worker was replaced (75%) were back at 95% of an undisturbed run's throughput within 30 s"
    )
    assert "the lowest ratio is 0.60, the median 0.95. 1 were below in one play" in text
    assert "less than 95% of the earlier one in 1 of 2 runs, the median is 0.96" in text
    assert describe_throughput(decide(plays[:1]).values()) == "No throughput was measured after a replacement"


def test_a_run_with_two_problems_of_a_kind_counts_once():
    case = Case(PLANS[0], problems=[("orphan", "1"), ("orphan", "2"), ("error", "x")])
    row = to_row([case.to_dict()])
    assert (row["runs"], row["bad"], row["orphan"], row["error"], row["hang"]) == (1, 1, 1, 1, 0)


def test_a_case_has_a_line_whatever_happens(monkeypatch, tmp_path):
    monkeypatch.setattr("harness.faults.unused_shared_memory", lambda: 1 / 0)
    assert "ZeroDivisionError" in run_case(PLANS[0], tmp_path).to_dict()["problems"][0][1]
