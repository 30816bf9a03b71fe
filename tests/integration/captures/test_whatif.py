"""What-if experiments on live runs: the run goes on, and the stage that is slow on purpose is the one that counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.runs import CARTPOLE, SMALL, live_run, run
from sample_profiler.cli.main import main


@pytest.mark.parametrize("inference", ["process", "worker"])
def test_a_live_run_is_slowed_and_goes_on(inference: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = (*CARTPOLE, *SMALL, f"--inference={inference}", "--train_for_seconds=60", "--save_every_sec=1")
    with live_run(*flags, folder=tmp_path) as live:
        live.wait_until_training()
        options = ("--rounds=1", "--seconds=1", "--settle=0.5", "--slower=90%")
        assert main(["whatif", str(live.folder), *options]) == 0, capsys.readouterr().err
        output = capsys.readouterr().out
        assert live.process.poll() is None, live.output
    pairs = re.findall(r"round 1, (\w+): ([\d,.]+) and ([\d,.]+) passes/s", output)
    assert [stage for stage, *_ in pairs] == ["env", "inference", "learner"]
    assert "95 % interval of 2 x" in output


def test_a_run_that_is_over_cannot_be_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*CARTPOLE, *SMALL, "--train_for_env_steps=500", folder=tmp_path).returncode == 0
    assert main(["whatif", str(tmp_path / "run")]) == 2
    assert "is it a run that goes on?" in capsys.readouterr().err
