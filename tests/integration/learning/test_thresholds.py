"""Small games are solved within the steps that users of such trainers expect, by what `enjoy` prints of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.runs import run

WORKERS = ("--num_workers=8", "--num_envs_per_worker=2", "--device=cpu", "--seed=0", "--save_every_sec=4")
pytestmark = pytest.mark.timeout(300)  # a minute alone; processors that others use, too, take longer


def train(folder: Path, *flags: str) -> str:
    """Train in parallel and asynchronously; return what the run said."""
    curve = ("--experiment_summaries_interval=2",)
    result = run("threshold_run", *flags, *WORKERS, *curve, folder=folder, timeout_s=280, PYTHONPATH=_path())
    assert result.returncode == 0, result.stdout
    return result.stdout


def play(folder: Path, *flags: str) -> float:
    """Return the mean reward that playing prints."""
    result = run("threshold_run", "enjoy", *flags, "--no_render", folder=folder, PYTHONPATH=_path())
    assert result.returncode == 0, result.stdout
    (reward,) = re.findall(r"^Mean reward (-?[\d.]+) ± ", result.stdout, re.MULTILINE)
    return float(reward)


def _path() -> str:
    return f"{Path(__file__).parent}:{Path(__file__).parents[3]}"


def test_the_best_of_ten_actions_is_found_by_eight_workers_with_two_environments_each(tmp_path: Path) -> None:
    output = train(tmp_path, "--env=ladder", "--train_for_env_steps=90000", "--batch_size=256")
    assert 80 <= play(tmp_path, "--env=ladder", "--max_num_episodes=2") <= 90, output


@pytest.fixture(scope="module")
def agreed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agreed")
    train(folder, "--env=agree", "--train_for_env_steps=100000", "--batch_size=512", "--num_policies=2")
    return folder


@pytest.mark.parametrize("policy", [0, 1])
def test_two_policies_learn_to_do_the_same(policy: int, agreed: Path) -> None:
    assert -0.1 <= play(agreed, "--env=agree", f"--policy_index={policy}", "--max_num_episodes=100") <= 0
