"""Small games are solved within the steps that users of such trainers expect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.runs import run


def train(folder: Path, *flags: str) -> list[float]:
    """Return the mean reward of the latest episodes at the end, by policy."""
    own = ("--experiment_summaries_interval=1", "--stats_avg=50")
    result = run("threshold_run", *flags, *own, folder=folder, PYTHONPATH=_path())
    assert result.returncode == 0, result.stdout
    last = re.findall(r"reward ((?:-?[\d.]+ )+) lag", result.stdout)[-1]
    return [float(reward) for reward in last.split()]


def _path() -> str:
    return f"{Path(__file__).parent}:{Path(__file__).parents[2]}"


@pytest.mark.parametrize("wiring", [("--async_rl=True",), ("--serial_mode=True", "--async_rl=False")])
def test_an_environment_of_ones_own_is_solved_by_eight_workers_with_two_each(wiring, tmp_path: Path) -> None:
    flags = ("--env=follow", "--train_for_env_steps=90000", "--num_workers=8", "--num_envs_per_worker=2", "--seed=1")
    (reward,) = train(tmp_path, *flags, *wiring)
    assert reward >= 80


def test_two_policies_learn_to_match_each_other(tmp_path: Path) -> None:
    flags = ("--env=regret", "--train_for_env_steps=100000", "--num_policies=2", "--seed=1")
    wiring = ("--serial_mode=True", "--async_rl=False", "--num_workers=2", "--num_envs_per_worker=4")
    rewards = train(tmp_path, *flags, *wiring)
    assert len(rewards) == 2
    assert min(rewards) >= -0.1
