"""Pixels of images are computed again for the pass backwards, and nothing comes out otherwise."""

from __future__ import annotations

import contextlib
import weakref
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.config import parse_config
from sample_profiler.model import ActorCritic, make_actor_critic
from sample_profiler.model.kernels.built import KERNELS
from sample_profiler.model.precision import computing_in
from sample_profiler.model.registry import ModelParts
from sample_profiler.ppo.forward_passes import ForwardPasses
from sample_profiler.ppo.pixels_anew import PixelsAnew
from sample_profiler.ppo.training_data import MicroBatch
from sample_profiler.profiling import Timing

CPU = torch.device("cpu")
IMAGE = spaces.Box(0, 255, (3, 24, 20), np.uint8)
SPACE = spaces.Dict({"obs": IMAGE, "second": IMAGE, "speed": spaces.Box(-1, 1, (4,), np.float32)})
PIECES = (5, 3, 5)


class ViewEncoder(nn.Module):
    """Takes images apart by `view`, as much code of others does, and returns part of its input."""

    output_size = 10

    def __init__(self, observation_space: spaces.Dict) -> None:
        super().__init__()

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        return observations["obs"].view(len(observations["obs"]), -1)[:, :10]


def make_model(*flags: str, parts: ModelParts | None = None) -> ActorCritic:
    torch.manual_seed(3)
    config = parse_config(["--env=any", "--encoder_conv_architecture=convnet_simple", "--rnn_size=8", *flags])
    model = make_actor_critic(config.model, config.observations, SPACE, spaces.Discrete(2), parts)
    for observations in make_pieces():
        model.update_normalizer(observations)
    return model


def make_pieces() -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(4)
    return [
        {
            "obs": torch.randint(0, 256, (size, *IMAGE.shape), dtype=torch.uint8, generator=generator),
            "second": torch.randint(0, 256, (size, *IMAGE.shape), dtype=torch.uint8, generator=generator),
            "speed": torch.randn(size, 4, generator=generator),
        }
        for size in PIECES
    ]


def gradients(model: ActorCritic, heads: list[Tensor]) -> list[Tensor]:
    loss = torch.cat([head.float() for head in heads]).square().sum()
    return list(torch.autograd.grad(loss, [*model.trunks.parameters()], allow_unused=True))


@pytest.mark.parametrize("compiles", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    "flags", [(), ("--encoder_conv_architecture=resnet_impala",), ("--actor_critic_share_weights=False",)]
)
def test_gradients_are_those_of_pixels_that_are_kept(flags, precision, compiles, monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function: function)  # as if; it keeps what it is given
    model = make_model(*flags)
    passes = ForwardPasses(model, precision, CPU, Timing("test"), compiles=compiles)
    with computing_in(precision, CPU):
        kept = [model.forward_head(model.normalize(observations)) for observations in make_pieces()]
    anew = passes.encode(cast("MicroBatch", SimpleNamespace(observations=make_pieces())))
    found = [[*heads, *gradients(model, heads)] for heads in (kept, anew)]
    for expected, computed in zip(*found, strict=True):
        assert (expected is None) == (computed is None)
        assert expected is None or torch.equal(expected, computed)


@pytest.mark.skipif(KERNELS != "compiled", reason="pixels are kept where torch's functions make them")
@pytest.mark.parametrize("anew", [True, False])
def test_what_is_computed_keeps_no_pixels(anew: bool) -> None:
    model = make_model()
    pixels = PixelsAnew(model)
    made, heads = [], []
    for observations in make_pieces():  # each of another size than the one before, so in other memory
        normalized = pixels.normalize(observations)
        made.append(weakref.ref(normalized["obs"]))
        with pixels.kept_as_bytes(observations, normalized) if anew else contextlib.nullcontext():
            heads.append(model.forward_head(normalized))
    del normalized
    assert [each() is not None for each in made] == ([False, False, True] if anew else [True] * 3)


def test_what_is_never_gone_through_backwards_goes_away() -> None:
    model = make_model()
    pixels = PixelsAnew(model)
    activations = []
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda _module, _inputs, output: activations.append(weakref.ref(output)))
    for observations in make_pieces():
        normalized = pixels.normalize(observations)
        with pixels.kept_as_bytes(observations, normalized):
            model.forward_head(normalized)
    assert activations and not any(each() is not None for each in activations)


def test_encoders_of_ones_own_see_what_they_have_always_seen() -> None:
    model = make_model(parts=ModelParts(encoder=ViewEncoder))
    pixels = PixelsAnew(model)
    heads = []
    for observations in make_pieces():
        normalized = pixels.normalize(observations)
        assert normalized["obs"].is_contiguous() and normalized["obs"].dtype == torch.float32
        with pixels.kept_as_bytes(observations, normalized):
            heads.append(model.forward_head(normalized))
    expected = [model.observation_normalizer(each)["obs"].flatten(1)[:, :10] for each in make_pieces()]
    assert all(torch.equal(head, rows) for head, rows in zip(heads, expected, strict=True)), "pieces overwrote others"
