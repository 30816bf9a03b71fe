"""Observations as networks written for Sample Factory expect them."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from sample_profiler.compat.networks.actor_critics import default_make_actor_critic_func
from sample_profiler.compat.networks.factory import ModelFactory, get_rnn_size
from sample_profiler.compat.networks.inference import create_actor_critic, prepare_and_normalize_obs
from sample_profiler.compat.networks.inputs import ExpectedInputs
from sample_profiler.compat.networks.parts import Encoder
from sample_profiler.compat.settings.arguments import default_cfg
from sample_profiler.model import registry

SPACE = spaces.Dict(
    {
        "text": spaces.Box(0, 255, (16,), np.uint8),
        "choice": spaces.Discrete(3, start=-1),
        "cards": spaces.MultiDiscrete([[2, 5], [3, 4]], start=[[0, 1], [-1, 7]]),
    }
)


class Reader(Encoder):
    """Notes what it is given; embeds the letters of a text, for which it wants whole numbers."""

    def __init__(self, cfg, obs_space):
        super().__init__(cfg)
        self.embedding = nn.Embedding(256, 3)
        self.given = {}

    def type_for_input_tensor(self, input_tensor_name):
        return torch.int64 if input_tensor_name in ("text", "choice") else torch.float32

    def forward(self, obs_dict):
        self.given = dict(obs_dict)
        return self.embedding(obs_dict["text"]).mean(1)

    def get_out_size(self):
        return 3


@pytest.mark.parametrize("is_whole", [False, True])
def test_they_come_as_values_of_the_types_that_an_encoder_asks_for(monkeypatch, is_whole):
    monkeypatch.setattr(registry, "_makers", {})
    factory, made = ModelFactory(), []
    factory.register_encoder_factory(lambda *arguments: made.append(Reader(*arguments)) or made[-1])
    if is_whole:
        factory.register_actor_critic_factory(default_make_actor_critic_func)
    cfg = default_cfg()
    cfg.normalize_input = False
    model = create_actor_critic(cfg, SPACE, spaces.Discrete(5))
    observations = {
        "text": np.full((2, 16), 200, np.uint8),
        "choice": np.array([-1, 1]),
        "cards": np.array([[[0, 1], [-1, 7]], [[1, 5], [1, 10]]]),
    }
    result = model(prepare_and_normalize_obs(model, observations), torch.zeros(2, get_rnn_size(cfg)))
    assert result["actions"].shape == (2,)
    given = made[-1].given
    assert {key: values.tolist() for key, values in given.items()} == {
        key: values.tolist() for key, values in observations.items()
    }
    assert [given[key].dtype for key in observations] == [torch.int64, torch.int64, torch.float32]


def test_they_are_exported_for_any_number_of_rows():
    space = spaces.Dict({name: SPACE[name] for name in ("choice", "cards")})
    widths = {"choice": 3, "cards": 14}
    expected = ExpectedInputs.of(nn.Identity(), space)

    class Prepared(nn.Module):
        def forward(self, choice, cards):
            return tuple(expected.prepare({"choice": choice, "cards": cards}).values())

    rows = torch.export.Dim("rows")
    examples = tuple(torch.eye(width)[:2] for width in widths.values())
    program = torch.export.export(Prepared(), examples, dynamic_shapes=({0: rows}, {0: rows}))
    choice, cards = program.module()(*(torch.eye(width)[:1].repeat(5, 1) for width in widths.values()))
    assert choice.tolist() == [-1.0] * 5 and cards.shape == (5, 2, 2)
