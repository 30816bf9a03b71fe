"""The number of weights that is counted is that of the network that is made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces
from torch import nn

from sample_profiler.config import ModelOptions, ObservationOptions
from sample_profiler.model import make_actor_critic
from sample_profiler.model.registry import ModelParts
from sample_profiler.model.sizes import num_weights
from sample_profiler.spaces import split_action_mask

SMALL = ModelOptions(encoder_mlp_layers=(8, 5), encoder_conv_mlp_layers=(9,), rnn_size=6)
VECTOR = spaces.Box(-1, 1, (4,), np.float32)
IMAGE = spaces.Box(0, 255, (3, 41, 57), np.uint8)
MIXED = spaces.Dict({"a": spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2, 2)))), "b": spaces.MultiBinary(2)})


def count(observation_space, action_space, parts=None, **changes):
    """Return the number that is counted, and that of the network."""
    options = replace(SMALL, **changes)
    network = make_actor_critic(options, ObservationOptions(), observation_space, action_space, parts)
    seen, _ = split_action_mask(observation_space, action_space)
    counted = num_weights(options, seen, action_space, parts)
    return counted, sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"encoder_mlp_layers": (), "decoder_mlp_layers": (7, 3)},
        {"use_rnn": False},
        {"rnn_type": "lstm", "rnn_num_layers": 3},
        {"rnn_num_layers": 2, "actor_critic_share_weights": False},
        {"adaptive_stddev": False},
        {"encoder_conv_mlp_layers": ()},
        {"encoder_conv_architecture": "convnet_impala"},
        {"encoder_conv_architecture": "convnet_atari", "actor_critic_share_weights": False},
        {"encoder_conv_architecture": "resnet_impala"},
    ],
    ids=str,
)
@pytest.mark.parametrize("action_space", [spaces.Discrete(3), MIXED], ids=["discrete", "mixed"])
def test_it_is_that_of_the_network(changes, action_space):
    scalar = spaces.Box(-1, 1, (), np.float32)
    seen = {"obs": IMAGE, "vector": VECTOR, "scalar": scalar, "kind": spaces.Discrete(5, start=1)}
    seen |= {"board": spaces.MultiDiscrete(np.full((3, 40, 40), 2)), "bits": spaces.MultiBinary(3)}
    counted, made = count(spaces.Dict(seen), action_space, **changes)
    assert counted == made


@pytest.mark.parametrize("architecture", ["convnet_simple", "convnet_impala", "convnet_atari", "resnet_impala"])
def test_images_of_any_size_are_counted(architecture):
    for height, width in (*((side, side) for side in range(1, 41)), (10, 200), (200, 7), (1, 36)):
        image = spaces.Box(0, 255, (2, height, width), np.uint8)
        counted, made = count(
            spaces.Dict(obs=image), spaces.Discrete(2), encoder_conv_architecture=architecture, use_rnn=False
        )
        assert counted == made, (height, width)


def test_an_action_mask_has_no_weights():
    seen = spaces.Dict({"obs": VECTOR, "action_mask": spaces.Box(0, 1, (3,), np.int8)})
    counted, made = count(seen, spaces.Discrete(3))
    assert counted == made


class Wide(nn.Module):
    """A part of the user's own."""

    output_size = 30

    def __init__(self, input_size):
        super().__init__()
        self.layer = nn.Linear(input_size, 30)

    def forward(self, given):
        return self.layer(given["obs"] if isinstance(given, dict) else given)


@pytest.mark.parametrize("parts", [ModelParts(encoder=lambda _: Wide(4)), ModelParts(decoder=Wide)])
def test_of_parts_of_the_users_own_it_is_a_lower_bound(parts):
    counted, made = count(spaces.Dict({"obs": VECTOR}), spaces.Discrete(3), parts)
    assert 0 < counted < made


def test_a_network_is_counted_that_no_machine_could_hold():
    options = ModelOptions(rnn_size=65_536, rnn_num_layers=100)
    assert num_weights(options, {"obs": VECTOR}, spaces.Discrete(2)) > 2 * 10**12
