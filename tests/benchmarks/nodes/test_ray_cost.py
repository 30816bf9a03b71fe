"""What is kept of pairs of runs, and when the way over Ray costs too much, with runs that are made up."""

from __future__ import annotations

import json

import pytest

from benchmarks.nodes import ray_cost
from benchmarks.nodes.ray_cost import Measured, main


@pytest.mark.parametrize(("over_ray", "status"), [(0.95, 0), (0.85, 1)])
def test_a_run_over_ray_that_reaches_less_than_nine_tenths_fails(tmp_path, monkeypatch, capsys, over_ray, status):
    measured = []

    def measure(task, arm, seconds, folder):
        measured.append(arm)
        assert (task, seconds) == ("cartpole", 5.0) and folder.name == arm
        sizes = {"dataset_bytes": 9, "weights_bytes": 4}
        if arm == "without":
            return Measured(1000.0, 100.0, sizes)
        return Measured(1000.0 * over_ray, 110.0, sizes)

    monkeypatch.setattr(ray_cost, "measure", measure)
    path = tmp_path / "pairs.jsonl"
    words = ["--task=cartpole", "--seconds=5", f"--output={path}"]
    assert main([*words, "--pairs=2"]) == status
    assert measured == ["without", "over Ray", "over Ray", "without"], "what drifts favours neither"
    first, _ = map(json.loads, path.read_text().splitlines())
    assert first["fps"] == {"without": 1000.0, "over Ray": 1000.0 * over_ray}
    assert (first["dataset_bytes"], first["processor_us"]["over Ray"]) == (9, 110.0)
    assert f"fps, over Ray to without: {over_ray:.3f}" in capsys.readouterr().out
    measured.clear()
    assert main([*words, "--pairs=3"]) == status
    assert measured == ["without", "over Ray"], "it goes on behind what is there"
