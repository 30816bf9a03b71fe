"""A serial, synchronous run that was interrupted anywhere ends with the very weights of one that was not."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.cli.train import train
from sample_profiler.envs import register_env, registry
from sample_profiler.profiling import get_timing, set_timing
from tests.integration.runs import load_latest_checkpoint

FLAGS = (
    *("--serial_mode=True", "--async_rl=False", "--seed=3", "--device=cpu", "--num_workers=2", "--rollout=8"),
    *("--num_envs_per_worker=4", "--encoder_mlp_layers", "16", "--rnn_size=8", "--value_bootstrap=True"),
    *("--flight_recorder_mb=0", "--save_best_after=1000000"),
)
# Several datasets of slots, so that groups are in the middle of rollouts whenever the Learner trains; or a single one.
LAYOUTS = {"several datasets": "--batch_size=16", "one dataset": "--batch_size=64"}


class Stroll(gymnasium.Env):
    """Random observations, and a reward for the right one of two actions; episodes of random length."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)
    steps_to_interrupt = -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(3, 40))
        self._place = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self._place.copy(), {}

    def step(self, action):
        Stroll.steps_to_interrupt -= 1
        if Stroll.steps_to_interrupt == 0:
            signal.raise_signal(signal.SIGINT)
        reward = float(action == (self._place[0] > 0)) + 0.1 * float(self.np_random.random())
        self._left -= 1
        self._place = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        is_terminated = self._left == 0 and self._place[1] > 0
        return self._place.copy(), reward, bool(is_terminated), self._left == 0 and not is_terminated, {}


class Walk(Stroll):
    """The same, and can be put back to where it was."""

    def get_state(self):
        return {"random": self.np_random.bit_generator.state, "left": self._left, "place": self._place.copy()}

    def set_state(self, state):
        # Not reset before: np_random makes a generator at its first use.
        self.np_random.bit_generator.state = state["random"]
        self._left, self._place = state["left"], state["place"]


Begin = Callable[..., int]


@pytest.fixture
def begin(monkeypatch, tmp_path, capsys) -> Iterator[Begin]:
    """Runs a training in this process, and returns its exit status."""
    monkeypatch.setattr(registry, "_makers", {})
    register_env("walk", lambda *_, **__: Walk())
    register_env("stroll", lambda *_, **__: Stroll())
    timing = get_timing()
    yield lambda *flags: train([*FLAGS, *flags, f"--train_dir={tmp_path}"])
    set_timing(timing, process_wide=True)
    capsys.readouterr()


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Return where two checkpoints differ."""
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


def learned(folder: Path) -> Any:
    """Return the newest checkpoint without the course: weights, optimizer, normalizers, generators, counters."""
    state = load_latest_checkpoint(folder)
    state.pop("course", None)
    return state


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_run_of_three_parts_ends_as_a_whole_one(begin: Begin, tmp_path: Path, capsys, layout: str) -> None:
    flags = ("--env=walk", LAYOUTS[layout])
    assert begin(*flags, "--train_for_env_steps=1500", "--experiment=whole") == 0
    capsys.readouterr()
    for number, target in enumerate((300, 700, 1500)):
        assert begin(*flags, f"--train_for_env_steps={target}", "--experiment=parts") == 0
        assert ("Environments go on where they were" in capsys.readouterr().out) == (number > 0)
    assert "course" in load_latest_checkpoint(tmp_path / "parts")
    assert differences(learned(tmp_path / "whole"), learned(tmp_path / "parts")) == []


def test_a_run_that_was_interrupted_in_the_middle_of_a_turn_ends_as_a_whole_one(begin: Begin, tmp_path: Path) -> None:
    flags = ("--env=walk", LAYOUTS["several datasets"], "--train_for_env_steps=1500")
    assert begin(*flags, "--experiment=whole") == 0
    for steps in (101, 402, 207):
        Stroll.steps_to_interrupt = steps
        assert begin(*flags, "--experiment=parts") == 130
    assert 0 < learned(tmp_path / "parts")["frames"] < 1000
    assert begin(*flags, "--experiment=parts") == 0
    assert differences(learned(tmp_path / "whole"), learned(tmp_path / "parts")) == []


def test_environments_that_cannot_be_put_back_begin_other_episodes_and_do_so_repeatably(
    begin: Begin, tmp_path: Path, monkeypatch
) -> None:
    flags = ("--env=stroll", LAYOUTS["one dataset"])
    seeds: dict[str, list[int]] = {}
    reset = Stroll.reset

    def noting(self, *, seed=None, options=None):
        if seed is not None:
            seeds[experiment].append(seed)
        return reset(self, seed=seed, options=options)

    monkeypatch.setattr(Stroll, "reset", noting)
    for experiment in ("a", "b"):
        seeds[experiment] = []
        for target in (300, 600):
            assert begin(*flags, f"--train_for_env_steps={target}", f"--experiment={experiment}") == 0
    assert len(set(seeds["a"])) == 2 * 8, "no start repeats the episodes of another"
    assert seeds["a"] == seeds["b"]
    states = [load_latest_checkpoint(tmp_path / name) for name in ("a", "b")]
    assert "course" not in states[0]
    assert differences(*states) == []


def test_a_course_of_another_layout_is_left_and_one_that_is_damaged_refused(
    begin: Begin, tmp_path: Path, capsys
) -> None:
    flags = ("--env=walk", LAYOUTS["one dataset"], "--experiment=mine")
    assert begin(*flags, "--train_for_env_steps=300") == 0
    capsys.readouterr()
    assert begin(*flags, "--train_for_env_steps=600", "--num_envs_per_worker=2") == 0
    assert "Environments begin new episodes: the run was laid out differently" in capsys.readouterr().out
    path = max((tmp_path / "mine" / "checkpoint_p0").glob("checkpoint_*.pth"))
    state = torch.load(path, weights_only=True)
    state["course"]["parts"]["RolloutWorker_w0"]["free"] = 7
    torch.save(state, path)
    content = path.read_bytes()
    assert begin(*flags, "--train_for_env_steps=900", "--num_envs_per_worker=2") == 1
    output = capsys.readouterr().out
    assert "the course of the run in its checkpoint is damaged (TypeError" in output
    assert "Traceback" not in output
    assert path.read_bytes() == content
