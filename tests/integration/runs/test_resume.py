"""A run that was ended goes on where it was."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from harness.runs import CARTPOLE, SMALL, load_latest_checkpoint, run

FLAGS = (*CARTPOLE, *SMALL, "--serial_mode=True", "--seed=1")


def test_resume_continues_counters_optimizer_and_flags(tmp_path: Path) -> None:
    first = run(*FLAGS, "--learning_rate=0.002", "--train_for_env_steps=3000", folder=tmp_path)
    assert first.returncode == 0, first.stdout
    before = load_latest_checkpoint(tmp_path / "run")
    second = run(*FLAGS, "--train_for_env_steps=6000", folder=tmp_path)
    assert second.returncode == 0, second.stdout
    assert "Loaded the checkpoint" in second.stdout
    after = load_latest_checkpoint(tmp_path / "run")
    assert 6000 <= after["frames"] < 6200
    assert after["optimizer_steps"] > before["optimizer_steps"] > 0
    # The saved learning rate counts, since the second command does not give one.
    assert after["optimizer"]["param_groups"][0]["lr"] == 0.002
    steps = [state["step"] for state in after["optimizer"]["state"].values()]
    assert all(float(step) == after["optimizer_steps"] for step in steps)


def test_resume_past_the_target_changes_nothing_but_ends(tmp_path: Path) -> None:
    assert run(*FLAGS, "--train_for_env_steps=2000", folder=tmp_path).returncode == 0
    before = load_latest_checkpoint(tmp_path / "run")
    assert run(*FLAGS, "--train_for_env_steps=2000", folder=tmp_path).returncode == 0
    after = load_latest_checkpoint(tmp_path / "run")
    assert after["frames"] - before["frames"] <= 64 * 2


def test_damaged_newest_checkpoint_costs_only_itself(tmp_path: Path) -> None:
    assert run(*FLAGS, "--train_for_env_steps=2000", folder=tmp_path).returncode == 0
    newest = max((tmp_path / "run" / "checkpoint_p0").glob("checkpoint_*.pth"))
    newest.write_bytes(newest.read_bytes()[:1000])
    result = run(*FLAGS, "--train_for_env_steps=4000", folder=tmp_path)
    assert result.returncode == 0, result.stdout
    assert f"Cannot read the checkpoint {newest}" in result.stdout
    assert load_latest_checkpoint(tmp_path / "run")["frames"] >= 4000


@pytest.mark.parametrize("serial", [True, False], ids=["serial", "parallel"])
def test_checkpoint_of_another_network_is_a_clear_error_and_changes_nothing(tmp_path: Path, serial: bool) -> None:
    flags = (*CARTPOLE, *SMALL, "--seed=1", f"--serial_mode={serial}")
    assert run(*flags, "--train_for_env_steps=1000", folder=tmp_path).returncode == 0
    before = contents(tmp_path)
    result = run(*flags, "--train_for_env_steps=2000", "--encoder_mlp_layers", "32", folder=tmp_path)
    assert result.returncode == 1
    assert "is not of this network" in result.stdout
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[Path, bytes | None]:
    """Return all that is in a run's folder but its log, which tells of every try."""
    paths = [path for path in folder.rglob("*") if path.name != "log.txt"]
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


def test_overwrite_and_restart(tmp_path: Path) -> None:
    assert run(*FLAGS, "--train_for_env_steps=1000", folder=tmp_path).returncode == 0
    (tmp_path / "run" / "mine.txt").write_text("kept by restart")
    assert run(*FLAGS, "--train_for_env_steps=1000", "--restart_behavior=restart", folder=tmp_path).returncode == 0
    (old,) = tmp_path.glob("run_old_*")
    assert (old / "mine.txt").exists()
    assert not (tmp_path / "run" / "mine.txt").exists()
    (tmp_path / "run" / "mine.txt").write_text("gone after overwrite")
    assert run(*FLAGS, "--train_for_env_steps=1000", "--restart_behavior=overwrite", folder=tmp_path).returncode == 0
    assert not (tmp_path / "run" / "mine.txt").exists()
    weights = load_latest_checkpoint(tmp_path / "run")["model"]
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())


def test_a_run_that_was_interrupted_ends_as_one_that_was_not(tmp_path: Path) -> None:
    """Learning rate and counters; the environments' own course, and so the rewards, differ from the second start on."""
    flags = ("--lr_schedule=linear_decay", "--save_best_after=500", "--save_best_every_sec=0.2", "--async_rl=False")
    whole = run(*FLAGS, *flags, "--train_for_env_steps=32000", folder=tmp_path, experiment="whole")
    assert whole.returncode == 0, whole.stdout
    flags = (*flags, "--train_for_env_steps=32000")
    # Ends early by time, goes on until all of it is done.
    first = run(*FLAGS, *flags, "--train_for_seconds=1", folder=tmp_path, experiment="parts")
    assert first.returncode == 0, first.stdout
    middle = load_latest_checkpoint(tmp_path / "parts")
    last = run(*FLAGS, *flags, "--train_for_seconds=1000", folder=tmp_path, experiment="parts")
    assert last.returncode == 0, last.stdout
    one, other = (load_latest_checkpoint(tmp_path / name) for name in ("whole", "parts"))
    assert 0 < middle["frames"] < one["frames"] == other["frames"]
    assert one["optimizer_steps"] == other["optimizer_steps"]
    rates = [state["optimizer"]["param_groups"][0]["lr"] for state in (one, other)]
    assert rates[0] == rates[1] < middle["optimizer"]["param_groups"][0]["lr"]
    assert other["best_metric"] >= middle["best_metric"], "the best there ever was counts"
    assert len(middle["latest_metrics"]) >= 20
    assert len(other["latest_metrics"]) == 100, "of both starts"


@pytest.mark.parametrize("way", ["raise", "kill"])
@pytest.mark.parametrize("serial", [True, False], ids=["serial", "parallel"])
def test_a_first_start_that_came_to_nothing_is_no_obstacle_to_the_mended_environment(
    tmp_path: Path, serial: bool, way: str
) -> None:
    flags = ("tests.integration.runs.mended_run", "--env=mended", "--num_workers=1", "--num_envs_per_worker=4", *SMALL)
    flags = (*flags, f"--serial_mode={serial}", "--train_for_env_steps=500")
    mended = partial(run, *flags, folder=tmp_path, RUN=str(tmp_path / "run"))
    assert mended(WIDTH="3", BREAK=way).returncode == (-9 if way == "kill" else 1)
    assert [path.name for path in (tmp_path / "run" / "checkpoint_p0").glob("*.pth")] == ["checkpoint_000000000_0.pth"]
    result = mended(WIDTH="5")
    assert result.returncode == 0, result.stdout
    assert "Training begins anew: the checkpoint is not of this network" in result.stdout
    assert load_latest_checkpoint(tmp_path / "run")["frames"] >= 500
