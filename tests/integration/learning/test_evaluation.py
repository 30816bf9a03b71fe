"""Policies are evaluated while they are trained; networks, observations and observers of one's own in real runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from harness.runs import CARTPOLE, SMALL, run


def read_scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    return {tag: [(event.step, event.value) for event in accumulator.Scalars(tag)] for tag in tags}


@pytest.mark.parametrize("wiring", [(), ("--serial_mode=True", "--async_rl=False")], ids=["parallel", "serial"])
def test_a_policy_plays_episodes_of_its_own_while_it_is_trained(wiring: tuple[str, ...], tmp_path: Path) -> None:
    flags = ("--eval_every_steps=4000", "--eval_num_episodes=3", "--experiment_summaries_interval=1", "--seed=1")
    result = run(*CARTPOLE, *SMALL, *wiring, *flags, "--train_for_env_steps=40000", folder=tmp_path)
    assert result.returncode == 0, result.stdout
    told = re.findall(r"Evaluation of policy 0 after ([\d,]+) frames: reward [\d.]+ ± [\d.]+ over 3", result.stdout)
    frames = [int(text.replace(",", "")) for text in told]
    assert frames and frames == sorted(set(frames))
    assert frames[0] >= 4000
    charted = read_scalars(tmp_path / "run" / "summary" / "0")["eval/reward"]
    assert {step for step, _ in charted} <= set(frames)
    assert all(1 <= reward <= 500 for _, reward in charted)
    assert "Evaluator 0 profile tree view" in result.stdout
    assert len(re.findall(r"Started \w+", result.stdout)) == (0 if wiring else 6)


def test_networks_observations_and_observers_of_ones_own(tmp_path: Path) -> None:
    flags = ("--num_workers=2", "--num_envs_per_worker=4", "--batch_size=256", "--encoder_mlp_layers=16")
    module = "sf_examples.custom.train_custom_model"
    result = run(module, *flags, "--train_for_env_steps=6000", "--experiment_summaries_interval=1", folder=tmp_path)
    assert result.returncode == 0, result.stdout
    scalars = read_scalars(tmp_path / "run" / "summary" / "0")
    last_step, num_iterations = scalars["custom/training_iterations"][-1]
    assert num_iterations == last_step / 256
    assert scalars["policy_stats/avg_found"]
