"""Observers and message handlers that are slow do not hold a run up, and others are told everything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.runs import SMALL, run


@pytest.mark.parametrize("serial", [False, True], ids=["parallel", "serial"])
def test_a_run_ends_though_a_slow_observer_is_owed_minutes_of_it(serial: bool, tmp_path: Path) -> None:
    flags = ("--env=pole", "--num_workers=2", "--num_envs_per_worker=4", "--device=cpu", "--train_for_env_steps=8000")
    told = tmp_path / "told.json"
    result = run(
        "tests.integration.extensions.observed_runs",
        *flags,
        *SMALL,
        f"--serial_mode={serial}",
        folder=tmp_path,
        TOLD=str(told),
    )
    assert result.returncode == 0, result.stdout
    assert "training steps were not told to Slow" in result.stdout
    facts = json.loads(told.read_text())
    assert facts["steps"] == list(range(1, len(facts["steps"]) + 1))
    assert len(facts["steps"]) >= 8000 // 64
    assert facts["episodes"][0] == facts["episodes"][1]
    timings = result.stdout.partition("Runner profile tree view:")[2]
    assert "Slow: " in timings
    assert "take_slowly: " in timings
    assert "a process or thread of its own for what" in result.stdout, "the verdict"
