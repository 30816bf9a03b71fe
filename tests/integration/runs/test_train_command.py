"""`sample-profiler train` and `enjoy` as they are installed, with an environment of the user's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.runs import COLLECTED, SMALL

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import sys
from sample_profiler.__main__ import main
if __name__ == "__main__":
    sys.exit(main())
"""
OWN = """
import gymnasium
gymnasium.register("Own-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=20)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a module that registers an environment; what is installed is in another one."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sample-profiler").write_text(SCRIPT)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "own_module.py").write_text(OWN)
    return tmp_path / "work"


def start(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(folder.parent / "bin" / "sample-profiler"), *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )


def test_it_is_trained_on_in_processes_resumed_and_played(folder: Path) -> None:
    flags = (*SMALL, "--num_workers=2", "--num_envs_per_worker=2", "--experiment=mine")
    trained = start(folder, "train", "own_module:Own-v0", "--train_for_env_steps=1000", *flags)
    assert trained.returncode == 0, trained.stdout
    assert COLLECTED.search(trained.stdout)
    config = json.loads((folder / "train_dir" / "mine" / "config.json").read_text())["flags"]
    assert (config["env"]["value"], config["use_rnn"]["value"]) == ("own_module:Own-v0", False)
    resumed = start(folder, "train", "own_module:Own-v0", "--train_for_env_steps=1000", "--experiment=mine")
    assert (resumed.returncode, "Trained for " in resumed.stdout) == (0, True), resumed.stdout
    playing = ("--experiment=mine", "--max_num_episodes=2", "--no_render")
    played = start(folder, "enjoy", "own_module:Own-v0", *playing)
    assert played.returncode == 0, played.stdout
    assert "over 2 episodes" in played.stdout
