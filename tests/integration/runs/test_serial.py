"""One process for everything: repeatable bit for bit, and open to any profiler."""

from __future__ import annotations

import pstats
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harness.runs import CARTPOLE, SMALL, load_latest_checkpoint, run

SERIAL = ("--serial_mode=True", "--async_rl=False")


def train_small(folder: Path, experiment: str, *flags: str, **environment: str) -> dict[str, object]:
    result = run(
        *CARTPOLE, *SMALL, *SERIAL, "--train_for_env_steps=4000", *flags,
        folder=folder, experiment=experiment, **environment,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    return load_latest_checkpoint(folder / experiment)


@pytest.mark.parametrize(
    "flags", [(), ("--use_rnn=True", "--rnn_size=16", "--num_epochs=2", "--shuffle_minibatches=True")]
)
def test_same_seed_same_bits_other_seed_other_bits(flags: tuple[str, ...], tmp_path: Path) -> None:
    first = train_small(tmp_path, "first", "--seed=1", *flags, PYTHONHASHSEED="1")
    again = train_small(tmp_path, "again", "--seed=1", *flags, PYTHONHASHSEED="2")
    other = train_small(tmp_path, "other", "--seed=2", *flags, PYTHONHASHSEED="1")
    assert first["frames"] == again["frames"]
    weights, same, different = (state["model"] for state in (first, again, other))
    assert list(weights) == list(same)
    assert all(torch.equal(weights[name], same[name]) for name in weights)
    assert not all(torch.equal(weights[name], different[name]) for name in weights)


def test_doom_repeats_bit_for_bit(tmp_path: Path) -> None:
    from harness.runs import DOOM

    states = []
    for experiment in ("first", "again"):
        result = run(*DOOM, *SERIAL, "--seed=7", "--train_for_env_steps=1500", folder=tmp_path, experiment=experiment)
        assert result.returncode == 0, result.stdout
        states.append(load_latest_checkpoint(tmp_path / experiment)["model"])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


COMPONENT_FUNCTIONS = {
    "environment": ("cartpole.py", "step"),
    "inference": ("inference_worker.py", "_handle_policy_step"),
    "learner": ("trainer.py", "train_minibatch"),
}


def test_cprofile_sees_all_components(tmp_path: Path) -> None:
    output = tmp_path / "out.prof"
    flags = [*CARTPOLE[1:], *SMALL, *SERIAL, "--train_for_env_steps=3000", f"--train_dir={tmp_path}"]
    subprocess.run(
        [sys.executable, "-m", "cProfile", "-o", str(output), "-m", CARTPOLE[0], *flags], check=True, timeout=100
    )
    functions = {(Path(path).name, name) for path, _, name in pstats.Stats(str(output)).stats}
    for component, function in COMPONENT_FUNCTIONS.items():
        assert function in functions, component


def test_yappi_sees_all_components(tmp_path: Path) -> None:
    pytest.importorskip("yappi")
    output = tmp_path / "out.prof"
    flags = [*CARTPOLE[1:], *SMALL, *SERIAL, "--train_for_env_steps=3000", f"--train_dir={tmp_path}"]
    program = (
        "import sys, yappi\n"
        "from sf_examples.gym.train_gym import main\n"
        "yappi.start()\n"
        f"status = main({flags!r})\n"
        "yappi.stop()\n"
        f"yappi.get_func_stats().save({str(output)!r}, 'pstat')\n"
        "sys.exit(status)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
    functions = {(Path(path).name, name.split(".")[-1]) for path, _, name in pstats.Stats(str(output)).stats}
    for component, function in COMPONENT_FUNCTIONS.items():
        assert function in functions, component
