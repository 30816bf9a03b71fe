from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from sample_profiler.config import ModelOptions
from sample_profiler.model.kernels import kernels
from sample_profiler.model.kernels.built import KERNELS
from sample_profiler.model.kernels.kernels import Elu
from sample_profiler.model.kernels.linear import Linear
from sample_profiler.model.layers import Mlp, initialize_weights, make_activation


@pytest.mark.parametrize(("nonlinearity", "kind"), [("elu", Elu), ("relu", nn.ReLU), ("tanh", nn.Tanh)])
def test_mlp_has_an_activation_after_each_layer(nonlinearity, kind):
    mlp = Mlp(3, (5, 4), nonlinearity)
    assert [type(layer) for layer in mlp] == [Linear, kind, Linear, kind]
    assert mlp(torch.randn(2, 3)).shape == (2, 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("widths", [(), (512, 300), (64, 64), (5,)])
@pytest.mark.parametrize("nonlinearity", ["elu", "relu", "tanh"])
@pytest.mark.parametrize("has_kernels", [True, False])
def test_an_mlp_prepared_for_inference_gives_what_its_layers_give(
    has_kernels, nonlinearity, widths, dtype, monkeypatch
):
    if not has_kernels:
        monkeypatch.setattr(kernels, "_kernels", None)
    torch.manual_seed(1)
    mlp, rows = Mlp(17, widths, nonlinearity).to(dtype), torch.randn(9, 17).to(dtype)
    expected = nn.Sequential(*mlp)(rows.clone()).detach().float()
    given = rows.clone()
    for layer in mlp:
        if isinstance(layer, Linear):
            layer.pack()
    with torch.no_grad():
        prepared = mlp(rows)
    assert prepared.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(prepared.float(), expected, rtol=tolerance, atol=tolerance)
    assert torch.equal(rows, given), "rows belong to the caller"
    # With gradients the layers compute one by one.
    assert mlp(rows).requires_grad == bool(widths)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_an_mlp_of_other_numbers_is_not_prepared(dtype):
    mlp, rows = Mlp(3, (4,), "tanh").to(dtype), torch.randn(2, 3)
    mlp[0].pack()
    with torch.no_grad():
        assert torch.equal(mlp(rows.to(dtype)), nn.Sequential(*mlp)(rows.to(dtype)))
        with pytest.raises(RuntimeError, match="dtype"):
            mlp(rows)


def test_layers_that_have_changed_their_type_forget_what_was_prepared():
    mlp, rows = Mlp(64, (64,), "relu").to(torch.bfloat16), torch.randn(300, 64)
    mlp[0].pack()
    mlp.float()[0].pack()
    with torch.no_grad():
        torch.testing.assert_close(mlp(rows), nn.Sequential(*mlp)(rows))


@pytest.mark.skipif(KERNELS != "compiled", reason="there was no compiler")
def test_a_prepared_mlp_goes_through_no_module(monkeypatch):
    mlp, rows = Mlp(3, (4, 4), "elu"), torch.randn(2, 3)
    for layer in (mlp[0], mlp[2]):
        layer.pack()

    def fail(*_):
        raise AssertionError("layer by layer")

    monkeypatch.setattr(nn.Sequential, "forward", fail)
    with torch.no_grad():
        mlp(rows)
    mlp(rows)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(AssertionError, match="layer by layer"):
        mlp(rows)


def test_a_prepared_mlp_says_that_rows_are_too_wide():
    mlp = Mlp(3, (4,), "elu")
    mlp[0].pack()
    for learns in (False, True):
        with torch.set_grad_enabled(learns), pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            mlp(torch.randn(2, 5))


def test_part_of_an_mlp_is_a_sequence_of_its_layers():
    mlp, rows = Mlp(3, (5, 4), "tanh"), torch.randn(2, 3)
    torch.testing.assert_close(mlp[2:](mlp[:2](rows)), mlp(rows))


@pytest.mark.filterwarnings("ignore:.*jit.trace:DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_prepared_mlp_is_traced_without_loops_that_a_tracer_does_not_see():
    mlp = Mlp(4, (8,), "tanh")
    mlp[0].pack()
    with torch.no_grad():
        traced = torch.jit.trace(mlp, torch.randn(2, 4), check_trace=False)
        rows = torch.randn(3, 4)
        torch.testing.assert_close(traced(rows), mlp(rows), rtol=1e-5, atol=1e-5)


def test_activation_leaves_its_input_alone_if_asked():
    values = torch.tensor([-1.0, 1.0])
    assert make_activation("relu", in_place=False)(values).tolist() == [0, 1]
    assert values.tolist() == [-1, 1]


def initialized(**options):
    torch.manual_seed(3)
    network = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Linear(6, 5), nn.GRU(3, 2))
    default = {name: value.clone() for name, value in network.state_dict().items()}
    initialize_weights(network, ModelOptions(**options))
    return network, default


def test_orthogonal_rows_have_the_gain_as_length():
    network, _ = initialized(policy_initialization="orthogonal", policy_init_gain=2.0)
    for layer in network[:2]:
        rows = layer.weight.flatten(1)
        torch.testing.assert_close(rows @ rows.t(), 4 * torch.eye(len(rows)), atol=1e-5, rtol=0)


def test_xavier_uniform_stays_within_its_bound():
    network, _ = initialized(policy_initialization="xavier_uniform", policy_init_gain=3.0)
    bound = 3 * (6 / (6 + 5)) ** 0.5
    largest = network[1].weight.abs().max().item()
    assert 0.8 * bound < largest <= bound


def test_torch_default_leaves_weights():
    network, default = initialized(policy_initialization="torch_default", policy_init_gain=3.0)
    assert torch.equal(network[1].weight, default["1.weight"])


@pytest.mark.parametrize("kind", ["orthogonal", "xavier_uniform", "torch_default"])
def test_biases_are_zero_and_recurrent_layers_are_torchs(kind):
    network, default = initialized(policy_initialization=kind)
    assert network[0].bias.abs().max() == 0
    assert network[1].bias.abs().max() == 0
    for name, value in network[2].state_dict().items():
        assert torch.equal(value, default[f"2.{name}"])


def test_what_somebody_hooks_into_or_replaces_is_called():
    mlp, rows, seen = Mlp(3, (4, 4), "tanh"), torch.randn(2, 3), []
    expected = mlp(rows)
    handle = mlp[1].register_forward_hook(lambda *_: seen.append(1))
    torch.testing.assert_close(mlp(rows), expected)
    assert seen == [1]
    handle.remove()
    assert mlp.is_as_made
    mlp[3] = nn.Identity()
    torch.testing.assert_close(mlp(rows), mlp[2](torch.tanh(mlp[0](rows))))
    assert not mlp.is_as_made
    assert Mlp(3, (4,), "elu").is_as_made


def test_a_copy_of_an_mlp_is_as_made():
    mlp = copy.deepcopy(Mlp(3, (4,), "elu"))
    assert mlp.is_as_made
