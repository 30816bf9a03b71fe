"""A match between players trains two policies."""

from __future__ import annotations

from pathlib import Path

from harness.runs import COLLECTED, DOOM, run


def test_two_policies_play_each_other(tmp_path: Path) -> None:
    module, _, *flags = DOOM
    result = run(module, "--env=doom_duel", *flags, "--num_policies=2", "--train_for_env_steps=2000", folder=tmp_path)
    assert result.returncode == 0, result.stdout
    frames = COLLECTED.findall(result.stdout)[-1][0]
    assert "0: " in frames and "1: " in frames
    assert "Waiting for players" not in result.stdout, "games of a match keep their talk to themselves"
