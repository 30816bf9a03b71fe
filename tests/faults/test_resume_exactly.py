"""A serial, synchronous run that was interrupted anywhere ends with the very weights of one that was not."""

from __future__ import annotations

import hashlib
import io
import math
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from harness.runs import load_latest_checkpoint
from sample_profiler import register_encoder
from sample_profiler.envs import register_env
from sample_profiler.model import registry as model_registry
from sample_profiler.run import resume_state as course_module
from sample_profiler.storage.sealing import SEAL_FORMAT
from tests.faults.walking import Stroll, Walk

# Several datasets of slots, so that groups are in the middle of rollouts whenever the Learner trains; or a single one.
LAYOUTS = {"several datasets": "--batch_size=16", "one dataset": "--batch_size=64"}


Begin = Callable[..., int]


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
    """Return the newest checkpoint without the course: weights, optimizer, normalizers, generators, counters.

    Workers tell of episodes that have ended from time to time, so in which order two of them do follows from the clock.
    """
    state = load_latest_checkpoint(folder)
    state.pop("course", None)
    state["latest_metrics"] = state["latest_metrics"].sort().values
    return state


def find_best(folder: Path) -> str:
    """Return the name of the best checkpoint, which tells its steps, frames and metric."""
    (path,) = (folder / "checkpoint_p0").glob("best_*.pth")
    return path.name


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
    assert find_best(tmp_path / "whole") == find_best(tmp_path / "parts")


def test_a_run_that_was_interrupted_in_the_middle_of_a_turn_ends_as_a_whole_one(begin: Begin, tmp_path: Path) -> None:
    flags = ("--env=walk", LAYOUTS["several datasets"], "--train_for_env_steps=1500", "--lr_schedule=linear_decay")
    assert begin(*flags, "--experiment=whole") == 0
    for steps in (101, 402, 207):
        Stroll.steps_to_interrupt = steps
        assert begin(*flags, "--experiment=parts") == 130
    middle = learned(tmp_path / "parts")
    assert 0 < middle["frames"] < 1000
    assert len(middle["latest_metrics"]) == 25, "episodes of before the interruption count afterwards"
    assert begin(*flags, "--experiment=parts") == 0
    assert differences(learned(tmp_path / "whole"), learned(tmp_path / "parts")) == []
    assert find_best(tmp_path / "whole") == find_best(tmp_path / "parts")
    assert learned(tmp_path / "whole")["best_metric"] > -math.inf


class Forgetful(torch.nn.Module):
    """Draws what it forgets from PyTorch's own generator whenever it is trained."""

    output_size = 8

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.5))

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.layers(observations["obs"])


def test_a_network_that_draws_random_numbers_goes_on_with_those_that_would_have_come(
    begin: Begin, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(model_registry, "_makers", {})
    register_encoder(lambda *_: Forgetful())
    flags = ("--env=walk", LAYOUTS["one dataset"])
    assert begin(*flags, "--train_for_env_steps=600", "--experiment=whole") == 0
    for target in (300, 600):
        assert begin(*flags, f"--train_for_env_steps={target}", "--experiment=parts") == 0
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
    # A resumed run tries an environment before it begins.
    assert len(seeds["a"]) == len(set(seeds["a"])) == 2 * 8 + 1, "no start repeats the episodes of another"
    assert seeds["a"] == seeds["b"]
    states = [load_latest_checkpoint(tmp_path / name) for name in ("a", "b")]
    assert "course" not in states[0]
    assert differences(*states) == []


def test_a_course_that_does_not_fit_or_is_damaged_is_left(begin: Begin, tmp_path: Path, capsys) -> None:
    flags = ("--env=walk", LAYOUTS["one dataset"], "--experiment=mine")
    assert begin(*flags, "--train_for_env_steps=300") == 0
    capsys.readouterr()
    assert begin(*flags, "--train_for_env_steps=600", "--num_envs_per_worker=2") == 0
    assert "Environments begin new episodes: the run was laid out differently" in capsys.readouterr().out
    path = max((tmp_path / "mine" / "checkpoint_p0").glob("checkpoint_*.pth"))
    state = torch.load(path, weights_only=True)
    state["course"]["data"][1000] ^= 1
    torch.save(state, path)
    assert begin(*flags, "--train_for_env_steps=900", "--num_envs_per_worker=2") == 0
    assert "WARNING: Environments begin new episodes: where they were is damaged" in capsys.readouterr().out


def sealed(data: bytes) -> dict[str, Any]:
    checksum = hashlib.sha256(data).hexdigest()
    return {"format": SEAL_FORMAT, "data": torch.tensor(list(data), dtype=torch.uint8), "sha256": checksum}


def saved(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def folded(levels: int) -> list[Any]:
    """Return a list that is 2 ** levels ones to whoever walks it, and hardly anything in a file."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "course",
    [
        *(sealed(b"garbage"), sealed(b""), sealed(saved([1, 2])), {**sealed(b""), "data": 3}, [], 7),
        sealed(
            saved({"array": torch.zeros(3, dtype=torch.uint8), "dtype": "<f8", "shape": (2**40,), "is_scalar": False})
        ),
        sealed(saved({"dict": [("parts", folded(60))]})),
        sealed(saved({"array": torch.zeros(1).expand(2**50), "dtype": "<f8", "shape": (1,), "is_scalar": False})),
    ],
    ids=[
        *("garbage", "nothing", "a list", "no tensor", "empty", "a number", "a huge array", "a folded list"),
        "an expanded tensor",
    ],
)
def test_a_course_that_is_made_up_is_left(begin: Begin, tmp_path: Path, capsys, course: Any) -> None:
    flags = ("--env=walk", LAYOUTS["one dataset"], "--experiment=mine")
    assert begin(*flags, "--train_for_env_steps=100") == 0
    path = max((tmp_path / "mine" / "checkpoint_p0").glob("checkpoint_*.pth"))
    torch.save(torch.load(path, weights_only=True) | {"course": course}, path)
    capsys.readouterr()
    assert begin(*flags, "--train_for_env_steps=200") == 0
    output = capsys.readouterr().out
    assert "WARNING: Environments begin new episodes: where they were is damaged" in output
    assert "Traceback" not in output


def test_a_course_of_another_version_is_left(begin: Begin, tmp_path: Path, capsys) -> None:
    flags = ("--env=walk", LAYOUTS["one dataset"], "--experiment=mine")
    assert begin(*flags, "--train_for_env_steps=100") == 0
    path = max((tmp_path / "mine" / "checkpoint_p0").glob("checkpoint_*.pth"))
    state = torch.load(path, weights_only=True)
    state["course"].pop("format")  # as the first one had none
    torch.save(state, path)
    capsys.readouterr()
    assert begin(*flags, "--train_for_env_steps=200") == 0
    output = capsys.readouterr().out
    assert "Environments begin new episodes: another version of this program has saved where they were" in output
    assert "damaged" not in output


class Surveyor(Walk):
    """Keeps its state under the names that a course itself has for things, and by numbers of NumPy."""

    def get_state(self):
        return {"array": super().get_state(), "dict": {np.int64(3): {}, (1, "a"): [np.float32(0.5)]}}

    def set_state(self, state):
        assert state["dict"] == {np.int64(3): {}, (1, "a"): [np.float32(0.5)]}
        super().set_state(state["array"])


def test_whatever_an_environment_calls_its_state_a_run_of_parts_ends_as_a_whole_one(
    begin: Begin, tmp_path: Path, capsys
) -> None:
    register_env("surveyor", lambda *_, **__: Surveyor())
    flags = ("--env=surveyor", LAYOUTS["one dataset"])
    assert begin(*flags, "--train_for_env_steps=600", "--experiment=whole") == 0
    for target in (300, 600):
        capsys.readouterr()
        assert begin(*flags, f"--train_for_env_steps={target}", "--experiment=parts") == 0
    assert "Environments go on where they were" in capsys.readouterr().out
    assert differences(learned(tmp_path / "whole"), learned(tmp_path / "parts")) == []


class Place(NamedTuple):
    """A tuple that would come back as one without names."""

    x: float


@pytest.mark.parametrize("value", [Place(0.5), OrderedDict(a=1), {Place(0.5): 1}, {frozenset(): 1}], ids=repr)
def test_a_state_that_would_not_come_back_as_it_was_is_told_when_it_is_saved(
    begin: Begin, tmp_path: Path, capsys, monkeypatch, value: Any
) -> None:
    monkeypatch.setattr(Walk, "get_state", lambda self: {"odd": value})
    flags = ("--env=walk", LAYOUTS["one dataset"], "--experiment=mine")
    assert begin(*flags, "--train_for_env_steps=100") == 0
    told = "Resumed, the run will begin new episodes: the state of an environment has a "
    assert told + type(next(iter(value)) if type(value) is dict else value).__name__ in capsys.readouterr().out
    assert "course" not in load_latest_checkpoint(tmp_path / "mine")


@pytest.mark.parametrize("flag", ["--inference=worker", "too large"])
def test_a_run_without_a_course_says_so(begin: Begin, tmp_path: Path, capsys, monkeypatch, flag: str) -> None:
    flags = ("--env=walk", LAYOUTS["one dataset"], "--experiment=mine")
    if flag == "too large":
        monkeypatch.setattr(course_module, "_MAX_BYTES", 1000)
        flag = "--inference=process"
    assert begin(*flags, flag, "--train_for_env_steps=100") == 0
    assert capsys.readouterr().out.count("Resumed, the run will begin new episodes: ") == 1
    assert "course" not in load_latest_checkpoint(tmp_path / "mine")
