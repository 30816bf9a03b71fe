"""Small networks, so that each test is quick."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.config import ModelOptions, ObservationOptions
from sample_profiler.model import ActorCritic, make_actor_critic

SMALL = ModelOptions(encoder_mlp_layers=(8,), encoder_conv_mlp_layers=(8,), rnn_size=6)
VECTOR_SPACE = spaces.Dict({"obs": spaces.Box(-np.inf, np.inf, (4,), np.float32)})


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def make_network():
    """Make a network for vectors of four numbers and three discrete actions; keywords change model options."""

    def make(observation_space=VECTOR_SPACE, action_space=None, observations=None, **changes) -> ActorCritic:
        return make_actor_critic(
            replace(SMALL, **changes),
            observations or ObservationOptions(),
            observation_space,
            action_space or spaces.Discrete(3),
        )

    return make
