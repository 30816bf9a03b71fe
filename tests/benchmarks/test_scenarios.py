"""The training of all scenarios: what counts as training, and that a failure is told by the exit status."""

from __future__ import annotations

import pytest

from benchmarks import scenarios
from benchmarks.scenarios import SCENARIOS, find_problem, main


def test_all_that_have_a_name_are_trained(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(scenarios, "train_scenario", lambda name, num_frames, _: seen.append((name, num_frames)) or "")
    assert main([]) == 0
    assert seen == [(name, 20_000) for name in SCENARIOS]
    assert {"doom_basic", "doom_benchmark", "doom_duel"} <= set(SCENARIOS)
    assert f"{len(SCENARIOS)} of {len(SCENARIOS)} scenarios train" in capsys.readouterr().out


def test_one_that_fails_is_told_and_the_others_are_trained(monkeypatch, capsys):
    monkeypatch.setattr(scenarios, "train_scenario", lambda name, *_: "no map" if name == "doom_duel" else "")
    assert main(["--only", "doom_duel", "doom_basic"]) == 1
    output = capsys.readouterr().out
    assert "no map" in output
    assert "1 of 2 scenarios train" in output


@pytest.mark.parametrize(
    ("status", "output", "problem"),
    [
        (0, "Collected {0: 20480}, FPS: 100.0", ""),
        (1, "Collected {0: 20480}, FPS: 100.0", "exit status 1"),
        (0, "Collected {0: 128}, FPS: 100.0", "it has not trained on 20,000 frames"),
        (0, "", "it has not trained on"),
    ],
)
def test_only_a_run_that_has_trained_to_its_end_trains(status, output, problem):
    found = find_problem(status, output, 20_000)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)
