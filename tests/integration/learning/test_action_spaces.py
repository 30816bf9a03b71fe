"""Every kind of action and of observation trains.

Parts of actions are drawn, masked, stored, handed to the environment and learned as one action; observations are read.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness.runs import run
from tests.integration.learning.test_evaluation import read_scalars

SERIAL = ("--serial_mode=True", "--async_rl=False", "--seed=1")
SUMMARY = ("--experiment_summaries_interval=1",)


def train(*flags_and_folder: str | Path) -> subprocess.CompletedProcess[str]:
    *flags, folder = flags_and_folder
    return run("identity_run", *map(str, flags), folder=Path(folder), PYTHONPATH=str(Path(__file__).parent))


def reward_of(output: str) -> float:
    return float(re.findall(r"reward (-?[\d.]+)", output)[-1])


@pytest.mark.parametrize("kind", ["multi", "combined", "nested", "bits", "named"])
def test_copying_is_learned_with_actions_of_several_parts(kind: str, tmp_path: Path) -> None:
    # Two seeds had 0.98 or more after so many steps.
    flags = (f"--env=copy_{kind}", "--train_for_env_steps=20000", *SERIAL, *SUMMARY)
    result = train(*flags, tmp_path)
    assert result.returncode == 0, result.stdout
    assert reward_of(result.stdout) > 0.85, result.stdout


@pytest.mark.parametrize(
    "kind",
    [
        *("discrete", "bits", "numbers", "number", "matrix", "image", "small_image", "rank_4", "image_and_vector"),
        *("inner", "in_tuples"),
    ],
)
def test_every_entry_of_an_observation_is_read(kind: str, tmp_path: Path) -> None:
    # Pixels that are all alike add up in a convolution: larger steps undo what was learned.
    rate = ("--learning_rate=0.002",) if "image" in kind else ()
    result = train(f"--env=tell_{kind}", "--train_for_env_steps=5000", *rate, *SERIAL, *SUMMARY, tmp_path)
    assert result.returncode == 0, result.stdout
    assert reward_of(result.stdout) > 0.9, f"a half by guessing\n{result.stdout}"


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_copying_is_learned_by_vectors_of_environments(mode: str, tmp_path: Path) -> None:
    flags = (f"--env=copy_combined_vector_{mode}", "--batched_sampling=True", "--num_envs_per_worker=1")
    # Two seeds had between 0.97 and 0.99 after so many steps.
    result = train(*flags, "--train_for_env_steps=20000", *SERIAL, *SUMMARY, tmp_path)
    assert result.returncode == 0, result.stdout
    assert reward_of(result.stdout) > 0.85, result.stdout


def test_each_kind_of_action_is_learned_with_a_mask_and_from_observations_of_that_kind(tmp_path: Path) -> None:
    """The environment raises if a forbidden value is drawn."""
    policies = range(7)  # a policy for each of ACTION_SPACES
    flags = ("--env=copy_each", f"--num_policies={len(policies)}", "--train_for_env_steps=4000")
    result = train(*flags, *SERIAL, *SUMMARY, tmp_path)
    assert result.returncode == 0, result.stdout
    charted = [read_scalars(tmp_path / "run" / "summary" / str(policy))["reward/reward"] for policy in policies]
    rewards = [values[-1][1] for values in charted]
    assert min(rewards) > 0.85, f"{rewards}, and 0.5 to 0.75 in the beginning"


@pytest.mark.parametrize("kind", ["hybrid", "named"])
def test_forbidden_values_are_never_drawn_in_a_parallel_run(kind: str, tmp_path: Path) -> None:
    """The environment raises if one is."""
    flags = (f"--env=copy_{kind}_masked", "--train_for_env_steps=20000", "--seed=1", *SUMMARY)
    result = train(*flags, tmp_path)
    assert result.returncode == 0, result.stdout
    assert "Collected" in result.stdout


@pytest.mark.parametrize("inference", ["process", "worker"])
def test_both_places_of_inference_sample_the_same_kind_of_run(inference: str, tmp_path: Path) -> None:
    flags = ("--env=copy_multi", "--train_for_env_steps=8000", f"--inference={inference}", "--num_workers=2")
    result = train(*flags, "--num_envs_per_worker=4", tmp_path)
    assert result.returncode == 0, result.stdout
    has_inference_worker = "InferenceWorker_p0-w0 profile tree view" in result.stdout
    assert has_inference_worker == (inference == "process")
    assert "handle_policy_step" in result.stdout
