"""Checkpoints of other networks, damaged anyhow or made up: a run goes on from them, or one message says why not."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.fuzzing import fuzzed, spoil, spoiled_bytes

WEIRD_TENSORS = st.sampled_from(
    [torch.zeros(0), torch.zeros(3), torch.zeros(2, 2, dtype=torch.int64), torch.zeros((), dtype=torch.bool)]
)


@pytest.fixture
def good(begin, tmp_path, capsys) -> Path:
    """The folder of a run that has trained a little."""
    assert begin("--env=walk", "--batch_size=64", "--train_for_env_steps=128", "--experiment=good") == 0
    capsys.readouterr()
    return tmp_path / "good"


def check_resume(begin: Any, good: Path, content: bytes, capsys: Any) -> bool:
    """Resume from a checkpoint of this content and train a little; return whether it was taken."""
    folder = good.with_name("bad")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "checkpoint_p0").mkdir(parents=True)
    shutil.copy(good / "config.json", folder)
    path = folder / "checkpoint_p0" / "checkpoint_000000002_128.pth"
    path.write_bytes(content)
    status = begin("--env=walk", "--batch_size=64", "--train_for_env_steps=256", "--experiment=bad")
    output = capsys.readouterr()
    assert "Traceback" not in output.out + output.err, output.out
    assert status in (0, 1)
    assert (status == 0) or "Learner_0 failed: " in output.out or "Serial" in output.out, output.out
    if status:
        assert path.read_bytes() == content, "what was refused is as it was"
    return status == 0


def content_of(good: Path) -> bytes:
    return max((good / "checkpoint_p0").glob("checkpoint_*.pth")).read_bytes()


def test_the_good_one_is_taken(begin, good, capsys):
    assert check_resume(begin, good, content_of(good), capsys)


@given(data=st.data())
@fuzzed
def test_damaged_files(begin, good, capsys, data):
    check_resume(begin, good, data.draw(spoiled_bytes(content_of(good))), capsys)


@given(data=st.data())
@fuzzed
def test_mutated_states(begin, good, capsys, data):
    state = torch.load(io.BytesIO(content_of(good)), weights_only=True)
    if data.draw(st.booleans()):
        holder = data.draw(st.sampled_from([state["model"], *state["optimizer"]["state"].values()]))
        holder[data.draw(st.sampled_from(sorted(holder)))] = data.draw(WEIRD_TENSORS)
    else:
        state = spoil(state, data.draw)
    file = io.BytesIO()
    torch.save(state, file)
    check_resume(begin, good, file.getvalue(), capsys)


def contents(folder: Path) -> dict[Path, bytes | None]:
    """Return all that a run's folder holds but its log, which tells of every try."""
    paths = [path for path in folder.rglob("*") if path.name != "log.txt"]
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


@pytest.mark.parametrize(
    "flags", ["--rnn_size=9", "--encoder_mlp_layers=8", "--use_rnn=False", "--normalize_input=False"]
)
def test_a_checkpoint_of_another_network_is_refused_and_nothing_changes(begin, good, capsys, flags):
    before = contents(good)
    assert begin("--env=walk", "--batch_size=64", "--experiment=good", "--train_for_env_steps=256", flags) == 1
    output = capsys.readouterr().out
    assert "is not of this network" in output
    assert "Traceback" not in output
    assert "the recordings and the report of the earlier run stay as they were" in output
    assert contents(good) == before
    # So the run goes on as if nobody had tried.
    assert begin("--env=walk", "--batch_size=64", "--experiment=good", "--train_for_env_steps=256") == 0


def test_nothing_changes_where_no_checkpoint_can_be_read(begin, good, capsys):
    for path in good.rglob("*.pth"):
        path.write_bytes(path.read_bytes()[:100])
    before = contents(good)
    flags = ("--benchmark=True", "--flight_recorder_mb=1", "--timeline_seconds=0:1000", "--train_for_env_steps=256")
    assert begin("--env=walk", "--batch_size=64", "--experiment=good", *flags) == 1
    assert "checkpoints in" in capsys.readouterr().out
    assert contents(good) == before
