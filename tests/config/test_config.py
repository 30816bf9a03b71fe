"""Tests of Config itself: reading flags, parts and origins, and copying it."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass

import pytest

from sample_profiler.config import Config, EnvironmentOptions, ModelOptions, SamplingOptions, parse_config


@dataclass(frozen=True, kw_only=True)
class GridOptions:
    """Grid."""

    grid_size: int = 5
    """Cells along each side."""


@pytest.fixture
def cfg() -> Config:
    return parse_config(["--env=grid", "--rollout=16", "--grid_size=7"], extra_parts=[GridOptions])


def test_flags_are_read_from_parts_and_directly(cfg: Config):
    assert cfg.sampling.rollout == cfg.rollout == 16
    assert cfg.part(GridOptions).grid_size == cfg.grid_size == 7
    assert cfg.part(SamplingOptions) is cfg.sampling


def test_every_flag_but_one_is_read_directly(cfg: Config):
    different = [name for name, value in cfg.values().items() if getattr(cfg, name) != value]
    assert different == ["optimizer"]
    assert cfg.optimizer.optimizer == "adam"


def test_a_flag_that_does_not_exist_is_an_attribute_error(cfg: Config):
    with pytest.raises(AttributeError, match="'rolout': did you mean 'rollout'"):
        _ = cfg.rolout
    assert getattr(cfg, "frames_per_second", 35) == 35
    assert not hasattr(cfg, "fps")


def test_a_part_or_origin_that_does_not_exist_is_a_key_error(cfg: Config):
    with pytest.raises(KeyError, match=r"no part dict; there are RunOptions.*GridOptions"):
        cfg.part(dict)
    with pytest.raises(KeyError, match="did you mean 'rollout'"):
        cfg.origin("rolout")


def test_a_configuration_cannot_be_changed(cfg: Config):
    with pytest.raises(FrozenInstanceError):
        cfg.rollout = 3
    with pytest.raises(FrozenInstanceError):
        cfg.sampling.rollout = 3  # type: ignore[misc]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda cfg: pickle.loads(pickle.dumps(cfg))])
def test_a_configuration_can_be_copied_and_sent(cfg: Config, duplicate):
    twin = duplicate(cfg)
    assert twin == cfg and twin.grid_size == 7 and twin.origin("rollout") == "command line"


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, 512),
        ({"rnn_size": 64, "rnn_num_layers": 2}, 128),
        ({"rnn_type": "lstm", "rnn_size": 64, "rnn_num_layers": 2}, 256),
        ({"use_rnn": False, "rnn_size": 64}, 1),
        ({"rnn_size": 64, "actor_critic_share_weights": False}, 128),
        ({"use_rnn": False, "actor_critic_share_weights": False}, 2),
    ],
)
def test_the_width_of_the_recurrent_state(options: dict[str, object], size: int):
    assert ModelOptions(**options).rnn_state_size == size


def test_the_folder_of_the_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/me")
    folder = parse_config(["--env=x", "--train_dir=~/runs", "--experiment=a/b"]).run.folder
    assert str(folder) == "/home/me/runs/a/b"


def test_parts_are_made_without_a_command_line_too():
    assert EnvironmentOptions(env_frameskip=4).env_frameskip == 4
    with pytest.raises(TypeError):
        EnvironmentOptions(4)  # type: ignore[misc]
