"""Agents with spaces of their own: each kind learns by a policy of its own, which goes on, plays and is loaded."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from harness.runs import COLLECTED, run
from sample_profiler import load_policy

SIZES = ("--num_workers=2", "--num_envs_per_worker=4", "--batch_size=256", "--rollout=16", "--device=cpu", "--seed=3")


def do(what: str, *flags: str, folder: Path) -> str:
    path = f"{Path(__file__).parent}:{Path(__file__).parents[3]}"
    result = run("different_agents_run", what, *flags, folder=folder, PYTHONPATH=path)
    assert result.returncode == 0, result.stdout
    return result.stdout


def reward_of(output: str) -> float:
    (reward,) = re.findall(r"^Mean reward (-?[\d.]+) ± ", output, re.MULTILINE)
    return float(reward)


@pytest.mark.parametrize(
    ("env", "flags"),
    [
        ("lists", ("--serial_mode=True", "--async_rl=False", "--eval_every_steps=10000")),
        ("parallel", ("--save_every_sec=4",)),
        ("lists", ("--inference=worker",)),
    ],
)
def test_each_kind_learns_what_it_sees(env: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    train = ("train", f"--env={env}", *SIZES, *flags, "--num_policies=2")
    do(*train, "--train_for_env_steps=12000", folder=tmp_path)
    resumed = do(*train, "--train_for_env_steps=24000", folder=tmp_path)
    assert re.findall(r"(\d): \d{5}", COLLECTED.findall(resumed)[-1][0]) == ["0", "1"], "both have gone on"
    rewards = [
        reward_of(do("enjoy", f"--env={env}", "--no_render", f"--policy_index={policy}", folder=tmp_path))
        for policy in range(2)
    ]
    assert min(rewards) > 6, "of 8, and 3 by guessing"


def test_policies_are_loaded_with_the_spaces_of_their_agents_and_evaluated_by_their_rewards(tmp_path: Path) -> None:
    do("train", "--env=lists", *SIZES, "--num_policies=3", "--train_for_env_steps=600", folder=tmp_path)
    seen = [load_policy(tmp_path / "run", policy_index=policy) for policy in range(3)]
    pair = spaces.Box(-1, 1, (2,), np.float32)
    assert [policy.action_space for policy in seen] == [pair, spaces.Discrete(3), pair]
    actions, _ = seen[1].act({"picture": np.zeros((5, 2, 3), np.float32)})
    assert actions.shape == (5,)
    for policy, num_agents in ((0, 2), (1, 1)):
        told = ("--max_num_episodes=3", "--eval_workers=2", f"--policy_index={policy}", f"--eval_folder={tmp_path}")
        do("eval", "--env=lists", *told, folder=tmp_path)
        document = json.loads((tmp_path / f"eval_p{policy}.json").read_text())
        assert sum(name.startswith("reward_") for name in document["episodes"][0]) == (0, 0, 2)[num_agents]


def test_too_few_policies_are_said_before_anything_is_made(tmp_path: Path) -> None:
    path = f"{Path(__file__).parent}:{Path(__file__).parents[3]}"
    result = run("different_agents_run", "train", "--env=parallel", folder=tmp_path, PYTHONPATH=path)
    assert result.returncode == 2 and "use --num_policies=2 or more" in result.stdout, result.stdout
    assert not (tmp_path / "run").exists()
