"""What is said of an environment's observations before a run begins."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.config import parse_config
from sample_profiler.envs import EnvSpec
from sample_profiler.errors import ConfigError
from sample_profiler.model import registry as model_registry
from sample_profiler.run.checks.spaces import check_spaces, log_images

GRID = spaces.Box(-1, 1, (7, 7, 3), np.float32)
TINY = spaces.Box(0, 255, (3, 24, 128), np.uint8)
PICTURE = spaces.Box(0, 255, (72, 128, 3), np.uint8)
SCREEN = spaces.Box(0, 255, (3, 72, 128), np.uint8)


def seeing(**entries) -> EnvSpec:
    return EnvSpec(observation_space=spaces.Dict(entries), action_space=spaces.Discrete(2))


def test_an_image_with_its_channels_behind_is_a_problem_beside_others():
    config = parse_config(["--env=mine", "--normalize_input_keys=nothing"])
    check_spaces(parse_config(["--env=mine"]), seeing(obs=SCREEN, grid=GRID))
    with pytest.raises(ConfigError) as caught:
        check_spaces(config, seeing(obs=SCREEN, other=PICTURE))
    names, order = caught.value.problems
    assert "'nothing'" in names
    assert "'other' of shape (72, 128, 3)" in order
    for architecture in ("convnet_simple", "convnet_impala", "convnet_atari", "resnet_impala"):
        flags = ("--env=mine", f"--encoder_conv_architecture={architecture}")
        check_spaces(parse_config(flags), seeing(obs=SCREEN, other=TINY))


def test_an_encoder_of_ones_own_takes_images_of_any_size(monkeypatch):
    monkeypatch.setattr(model_registry, "_makers", {"encoder": lambda *_: None})
    check_spaces(parse_config(["--env=mine"]), seeing(obs=PICTURE))


def test_the_log_says_how_small_images_are_gone_over(caplog, monkeypatch):
    config = parse_config(["--env=mine"])
    caplog.set_level(logging.INFO)
    log_images(config, seeing(obs=SCREEN, other=TINY).observation_space)
    (message,) = caplog.messages
    assert message == (
        "Observation 'other' of shape (3, 24, 128) is smaller than the 36x36 pixels that "
        "--encoder_conv_architecture=convnet_simple is made for: kernels (and strides) are 3x8 (1x4), 4x4 (2x2), "
        "3x3 (2x2)"
    )
    monkeypatch.setattr(model_registry, "_makers", {"encoder": lambda *_: None})
    log_images(config, seeing(other=TINY).observation_space)
    assert len(caplog.messages) == 1


def test_the_log_says_what_is_taken_for_a_vector_that_one_may_take_for_an_image(caplog, monkeypatch):
    config = parse_config(["--env=mine"])
    caplog.set_level(logging.INFO)
    log_images(config, seeing(obs=SCREEN, grid=GRID, flat=spaces.Box(-1, 1, (3,))).observation_space)
    (message,) = caplog.messages
    assert message.startswith("Observation 'grid' of shape (7, 7, 3) is flattened for fully connected layers")
    monkeypatch.setattr(model_registry, "_makers", {"encoder": lambda *_: None})
    log_images(config, seeing(grid=GRID).observation_space)
    assert len(caplog.messages) == 1
