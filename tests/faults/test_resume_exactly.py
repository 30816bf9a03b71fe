"""A serial, synchronous run that was interrupted anywhere ends with the very weights of one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.integration.runs import command, load_latest_checkpoint, run

RUN = "stateful_run"
FINDING_IT = {"PYTHONPATH": str(Path(__file__).parent)}
FLAGS = (
    *("--serial_mode=True", "--async_rl=False", "--seed=3", "--device=cpu", "--num_workers=2", "--rollout=8"),
    *("--num_envs_per_worker=4", "--encoder_mlp_layers", "16", "--rnn_size=8", "--value_bootstrap=True"),
)
# Several datasets of slots, so that groups are in the middle of rollouts whenever the Learner trains; or a single one.
LAYOUTS = {"several datasets": ("--batch_size=16",), "one dataset": ("--batch_size=64",)}


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Return where two checkpoints differ, the course included."""
    if isinstance(one, torch.Tensor):
        return [] if torch.equal(one, other) else [where]
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return [f"{where}: {sorted(map(str, one.keys() ^ other.keys()))}"]
        return [found for key in one for found in differences(one[key], other[key], f"{where}/{key}")]
    if isinstance(one, list | tuple):
        pairs = enumerate(zip(one, other, strict=True))
        return [found for n, (a, b) in pairs for found in differences(a, b, f"{where}/{n}")]
    return [] if one == other else [f"{where}: {one!r:.40} {other!r:.40}"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_run_of_three_parts_ends_as_a_whole_one(tmp_path: Path, layout: str) -> None:
    flags = ("--env=walk", *FLAGS, *LAYOUTS[layout])
    assert (
        run(RUN, *flags, "--train_for_env_steps=3000", folder=tmp_path, experiment="whole", **FINDING_IT).returncode
        == 0
    )
    for number, target in enumerate((500, 1300, 3000)):
        part = run(RUN, *flags, f"--train_for_env_steps={target}", folder=tmp_path, experiment="parts", **FINDING_IT)
        assert part.returncode == 0, part.stdout
        assert ("Environments go on where they were" in part.stdout) == (number > 0)
    states = [load_latest_checkpoint(tmp_path / name) for name in ("whole", "parts")]
    for state in states:
        assert state.pop("course")
        state.pop("best_metric")  # follows the statistics of episodes, of which each start has its own
    assert differences(*states) == []


def test_a_run_that_was_interrupted_in_the_middle_of_a_turn_ends_as_a_whole_one(tmp_path: Path) -> None:
    flags = ("--env=walk", *FLAGS, "--batch_size=16", "--train_for_env_steps=6000")
    assert run(RUN, *flags, folder=tmp_path, experiment="whole", **FINDING_IT).returncode == 0
    arguments = command(RUN, *flags, folder=tmp_path, experiment="parts")
    for _ in range(20):
        with subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **FINDING_IT}
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if "Seed" in line:
                    break
            time.sleep(0.35)
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
        assert process.returncode in (0, 130), rest
        if process.returncode == 0:
            break
    if process.returncode:
        assert run(RUN, *flags, folder=tmp_path, experiment="parts", **FINDING_IT).returncode == 0
    states = [load_latest_checkpoint(tmp_path / name) for name in ("whole", "parts")]
    for state in states:
        state.pop("course", None)
        state.pop("best_metric")
    assert differences(*states) == []


def test_environments_that_cannot_be_put_back_begin_other_episodes_and_do_so_repeatably(tmp_path: Path) -> None:
    flags = ("--env=stroll", *FLAGS, *LAYOUTS["one dataset"])
    for experiment in ("a", "b"):
        for target in (600, 1200):
            part = run(
                RUN, *flags, f"--train_for_env_steps={target}", folder=tmp_path, experiment=experiment, **FINDING_IT
            )
            assert part.returncode == 0, part.stdout
            assert "Environments go on" not in part.stdout
    states = [load_latest_checkpoint(tmp_path / name) for name in ("a", "b")]
    assert "course" not in states[0]
    for state in states:
        state.pop("best_metric")
    assert differences(*states) == []
