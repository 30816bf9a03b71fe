"""bfloat16 changes the arithmetic of encoder and core, and nothing of what training keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.config import ModelOptions, ObservationOptions
from sample_profiler.model import make_actor_critic
from sample_profiler.model.kernels.built import KERNELS
from sample_profiler.model.precision import InferenceNetwork, computing_in

CPU = torch.device("cpu")
SPACES = {
    "image": spaces.Dict({"obs": spaces.Box(0, 255, (3, 36, 36), np.uint8)}),
    "vector": spaces.Dict({"obs": spaces.Box(-1, 1, (6,), np.float32)}),
}


def make_network(kind="vector", **options):
    torch.manual_seed(3)
    layers = {"encoder_mlp_layers": (32,), "encoder_conv_mlp_layers": (32,), "rnn_size": 16}
    observations = ObservationOptions(obs_scale=255.0 if kind == "image" else 1.0)
    return make_actor_critic(ModelOptions(**layers | options), observations, SPACES[kind], spaces.Discrete(5))


def make_inputs(network, kind, num_rows=7):
    generator = torch.Generator().manual_seed(4)
    space = SPACES[kind]["obs"]
    if kind == "image":
        values = torch.randint(0, 256, (num_rows, *space.shape), generator=generator, dtype=torch.uint8)
    else:
        values = torch.randn(num_rows, *space.shape, generator=generator)
    return network.normalize({"obs": values}), torch.randn(num_rows, network.state_size, generator=generator)


@pytest.mark.parametrize("kind", ["image", "vector"])
@pytest.mark.parametrize(
    "options",
    [
        *({}, {"use_rnn": False}, {"rnn_type": "lstm"}, {"actor_critic_share_weights": False}),
        # What reaches the core, or without one the heads, is float32.
        {"encoder_mlp_layers": (), "encoder_conv_mlp_layers": ()},
        {"encoder_mlp_layers": (), "encoder_conv_mlp_layers": (), "use_rnn": False},
    ],
)
def test_bfloat16_gives_nearly_the_same_and_float32_results(kind, options):
    network = make_network(kind, **options)
    inputs = make_inputs(network, kind)
    with torch.no_grad():
        exact = network(*inputs)
        with computing_in("bf16", CPU):
            rounded = network(*inputs)
    for one, other in zip(exact, rounded, strict=True):
        assert other.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.05)
    computes = kind == "image" or options.get("use_rnn", True) or options.get("encoder_mlp_layers", True)
    is_equal = [torch.equal(one, other) for one, other in zip(exact, rounded, strict=True)]
    assert not is_equal[0] if computes else all(is_equal), "encoder and core, and the heads never"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *(("image", {}), ("vector", {}), ("vector", {"use_rnn": False})),
        ("vector", {"use_rnn": False, "actor_critic_share_weights": False, "encoder_mlp_layers": (32, 24)}),
    ],
)
def test_inference_computes_what_the_learner_does_with_weights_that_are_cast_once(kind, options):
    network = make_network(kind, **options)
    inference = InferenceNetwork(make_network(kind, **options), "bf16")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.5)
    inference.model.load_state_dict(network.state_dict())
    inference.refresh()
    assert bool(inference.network._fused) == ("use_rnn" in options and KERNELS == "compiled")
    # In one pass sums are added in another order, and may then be rounded the other way.
    tolerance = 1e-2 if inference.network._fused else 1e-3
    inputs = make_inputs(network, kind)
    with torch.no_grad(), computing_in("bf16", CPU):
        for one, other in zip(network(*inputs), inference.network(*inputs), strict=True):
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    assert {p.dtype for p in inference.network.trunks.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in inference.network.action_head.parameters()} == {torch.float32}
    assert {b.dtype for b in inference.model.state_dict().values()} <= {torch.float32, torch.float64}


def test_inference_in_float32_is_the_model_itself():
    model = make_network()
    inference = InferenceNetwork(model, "fp32")
    inference.refresh()
    assert inference.network is model


@pytest.mark.parametrize("rnn_type", ["gru", "lstm"])
def test_gradients_in_bfloat16_point_where_the_exact_ones_do_and_are_float32(rnn_type):
    gradients = []
    for precision in ("fp32", "bf16"):
        network = make_network("image", rnn_type=rnn_type)
        normalized, states = make_inputs(network, "image", num_rows=8)
        starts = torch.zeros(2, 4, dtype=torch.bool)
        starts[1, 2] = True
        with computing_in(precision, CPU):
            head = network.forward_head(normalized).view(2, 4, -1)
            core = network.forward_core_sequence(head, states[:2], starts)
            parameters, values = network.forward_tail(core.flatten(0, 1))
        assert parameters.dtype == values.dtype == torch.float32
        (parameters.square().sum() + values.sum()).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None]))
    assert gradients[1].dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(*gradients, dim=0) > 0.99
    assert (gradients[0] != gradients[1]).any()
