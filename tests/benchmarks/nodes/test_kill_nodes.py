"""What is kept of broken nodes, in which order a run meets with them, and what all of it comes to, without Ray."""

from __future__ import annotations

import json

import pytest

from benchmarks.nodes import kill_nodes
from benchmarks.nodes.kill_nodes import END, FAULTS, Case, Plan, main, play_round

SMALL = ("--rounds=1", "--layouts", "1 actor", "2 actors", "--faults", "actor", "own raylet", END)


@pytest.fixture
def runs(monkeypatch):
    """Stand in for runs; return what befell each, and which cases are to have problems."""
    befallen, problems = [], set()

    class Run:
        def __init__(self, layout):
            befallen.append((layout, []))

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def play(self, plan):
            befallen[-1][1].append(plan.fault)
            if plan in problems:
                return Case(plan, problems=["left over: 17 raylet"], output="the end")
            return Case(plan, after_s=1.0, noticed_s=2.0, back_s=9.0, brought_s=11.0)

    monkeypatch.setattr(kill_nodes, "BrokenRun", Run)
    return befallen, problems


def test_a_run_meets_with_everything_of_its_round_and_last_with_what_cannot_be_renewed(runs):
    befallen, _ = runs
    cases = list(play_round([Plan("1 actor", fault, 0) for fault in (END, *FAULTS)]))
    ((_, faults),) = befallen
    assert sorted(faults) == sorted([*FAULTS, END])
    assert faults[-2:] == ["own raylet", END]
    assert [case.plan.fault for case in cases] == faults


def test_after_a_problem_the_others_meet_another_run(runs):
    befallen, problems = runs
    plans = [Plan("1 actor", fault, 0) for fault in ("own raylet", END)]
    problems.add(plans[0])
    list(play_round(plans))
    assert [faults for _, faults in befallen] == [["own raylet"], [END]]


def test_each_case_is_a_line_and_only_missing_ones_are_made(runs, tmp_path, capsys):
    befallen, _ = runs
    path = tmp_path / "nodes.jsonl"
    assert main([*SMALL, f"--output={path}"]) == 0
    assert befallen == [(layout, ["actor", "own raylet", END]) for layout in ("1 actor", "2 actors")]
    lines = path.read_text().splitlines()
    assert all(json.loads(line)["commit"] and json.loads(line)["back_s"] == 9.0 for line in lines)
    output = capsys.readouterr().out
    assert "1 actor, actor, 0: noticed after 2.0 s, back after 9.0 s, brought after 11.0 s, as it has to be" in output
    assert "actor: 2 times, 0 with problems; 9.0 to 9.0 s" in output and "no case has problems" in output
    path.write_text("\n".join(lines[:4]) + "\n" + lines[4][:20])  # as a kill leaves it
    befallen.clear()
    assert main([*SMALL, f"--output={path}"]) == 0
    assert befallen == [("2 actors", ["own raylet", END])]


def test_problems_fail_and_what_is_missing_is_told(runs, tmp_path, capsys):
    _, problems = runs
    assert main([*SMALL, f"--output={tmp_path / 'a.jsonl'}", "--seconds=0"]) == 3
    assert "6 cases are not there yet" in capsys.readouterr().out
    problems.add(Plan("2 actors", "actor", 0))
    assert main([*SMALL, f"--output={tmp_path / 'b.jsonl'}"]) == 1
    output = capsys.readouterr().out
    assert "2 actors, actor, 0: FAILED\n  left over: 17 raylet" in output
    assert "actor: 1 times" in output and "no case has problems" not in output
