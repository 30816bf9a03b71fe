"""Products by oneDNN are those of torch, forth and back, whatever the type, the number of rows and what is packed."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from sample_profiler.model.kernels import kernels, linear, perceptrons
from sample_profiler.model.kernels.linear import Linear, affine, can_multiply, multiply, pack

needs_onednn = pytest.mark.skipif(not can_multiply(torch.ones(1)), reason="this build of torch has no oneDNN")

# Enough work for oneDNN, and too little.
SIZES = [(512, 4, 512), (64, 300, 200), (3, 8, 5), (2048, 512, 2), (1, 512, 512)]
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def needs_onednn_for(dtype):
    """Skip where the processor has no instructions for products of this type: nobody packs weights there."""
    reason = f"oneDNN does not multiply {dtype} on this processor"
    return pytest.param(dtype, marks=pytest.mark.skipif(not can_multiply(torch.ones(1), dtype), reason=reason))


def make_layer(num_inputs, num_outputs):
    torch.manual_seed(1)
    return Linear(num_inputs, num_outputs)


def relative_error(ours, reference):
    return ((ours.double() - reference.double()).abs().max() / reference.double().abs().max()).item()


@pytest.mark.parametrize(("num_rows", "num_inputs", "num_outputs"), SIZES)
def test_output_and_gradients_are_those_of_exact_arithmetic(num_rows, num_inputs, num_outputs):
    layer = make_layer(num_inputs, num_outputs)
    exact = copy.deepcopy(layer).double()
    rows = torch.randn(num_rows, num_inputs, requires_grad=True)
    weights = torch.randn(num_rows, num_outputs)
    results = []
    for module, inputs, factor in ((layer, rows, weights), (exact, rows.double(), weights.double())):
        output = F.linear(inputs, module.weight, module.bias) if module is exact else module(inputs)
        results.append([output, *torch.autograd.grad((output * factor).sum(), [rows, module.weight, module.bias])])
    for ours, reference in zip(*results, strict=True):
        assert relative_error(ours, reference) < TOLERANCES[torch.float32]


@pytest.mark.parametrize("are_compiled", [True, False])
@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(("num_inputs", "num_outputs"), [(4, 512), (17, 70), (1, 1), (512, 2), (600, 2), (67, 1)])
def test_narrow_layers_are_exact_in_inference(num_inputs, num_outputs, has_bias, dtype, are_compiled, monkeypatch):
    if not are_compiled:
        monkeypatch.setattr(kernels, "_kernels", None)
        monkeypatch.setattr(perceptrons, "_perceptrons", None)
    layer = Linear(num_inputs, num_outputs, bias=has_bias).to(dtype)
    layer.pack()
    assert (layer._small is not None) == (perceptrons._perceptrons is not None and num_inputs <= 512)
    bias = None if layer.bias is None else layer.bias.double()
    with torch.no_grad():
        for rows in (torch.randn(9, num_inputs), torch.randn(num_inputs, 5).t(), torch.randn(0, num_inputs)):
            exact = F.linear(rows.to(dtype).double(), layer.weight.double(), bias)
            outputs = layer(rows)
            assert outputs.dtype == dtype
            torch.testing.assert_close(outputs.double(), exact, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", [needs_onednn_for(dtype) for dtype in TOLERANCES])
@pytest.mark.parametrize("num_rows", [1, 3, 16, 77])
def test_packed_weights_serve_any_number_of_rows(dtype, num_rows):
    layer = make_layer(300, 200).to(dtype)
    rows = torch.randn(num_rows, 300).to(dtype)
    expected = F.linear(rows.double(), layer.weight.double(), layer.bias.double())
    for product in (
        multiply(rows, layer.weight, layer.bias),
        multiply(rows, pack(layer.weight), layer.bias),
        affine(rows, layer.weight, layer.bias, pack(layer.weight)),
        affine(rows, layer.weight, layer.bias),
    ):
        assert product.dtype == dtype
        assert relative_error(product, expected) < TOLERANCES[dtype]


@needs_onednn
def test_few_numbers_of_rows_are_multiplied_with_packed_weights(monkeypatch: pytest.MonkeyPatch):
    multiplied = []

    def note(rows, weight, bias=None):
        multiplied.append(len(rows))
        return multiply(rows, weight, bias)

    monkeypatch.setattr(linear, "multiply", note)
    weight = torch.randn(1536, 512)
    packed = pack(weight)
    for num_rows in range(2, 257):
        rows = torch.randn(num_rows, 512)
        product = affine(rows, weight, None, packed)
        assert len(product) == num_rows
        assert relative_error(product[-1:], F.linear(rows[-1:].double(), weight.double())) < 1e-5
        assert num_rows <= multiplied[-1] <= max(num_rows + 7, num_rows * 9 / 8)
    assert len(multiplied) == 255
    assert len(set(multiplied)) == 24


@needs_onednn
def test_large_products_go_to_onednn_and_small_ones_do_not(monkeypatch: pytest.MonkeyPatch):
    calls = []

    def count(rows, weight, bias=None):
        calls.append(len(rows))
        return F.linear(rows, weight, bias)

    monkeypatch.setattr(linear, "multiply", count)
    layer = make_layer(512, 512)
    layer(torch.randn(4, 512))
    assert calls == []
    layer(torch.randn(64, 512)).sum().backward()
    assert calls == [64, 512], "the output and the gradient of the weights; nobody asks for that of the rows"


@needs_onednn
def test_a_packed_layer_learns_with_its_own_weights():
    layer = make_layer(300, 200)
    with torch.no_grad():
        layer.pack()
        layer.weight.add_(1.0)  # what is packed is of yesterday
    rows = torch.randn(64, 300)
    torch.testing.assert_close(layer(rows), F.linear(rows, layer.weight, layer.bias), rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        assert not torch.allclose(layer(rows), F.linear(rows, layer.weight, layer.bias))
        layer.pack()
        torch.testing.assert_close(layer(rows), F.linear(rows, layer.weight, layer.bias), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("num_rows", [4, 512])
def test_under_autocast_gradients_are_float32_and_outputs_bfloat16(num_rows):
    layer = make_layer(128, 64)
    rows = torch.randn(num_rows, 128)
    with torch.autocast("cpu", torch.bfloat16):
        output = layer(rows)
    assert output.dtype == torch.bfloat16
    output.float().square().sum().backward()
    assert layer.weight.grad.dtype == layer.bias.grad.dtype == torch.float32
    exact = torch.autograd.grad(F.linear(rows, layer.weight, layer.bias).square().sum(), layer.weight)[0]
    assert relative_error(layer.weight.grad, exact) < TOLERANCES[torch.bfloat16]


def test_a_state_dict_is_that_of_torchs_layer():
    layer = make_layer(512, 512)
    with torch.no_grad():
        layer.pack()
    assert list(layer.state_dict()) == list(torch.nn.Linear(512, 512).state_dict())


@pytest.mark.parametrize("shape", [(64, 5, 300), (300,), (2, 3, 300), (0, 300)])
def test_rows_may_have_any_shape(shape):
    layer = make_layer(300, 200)
    rows = torch.randn(*shape, requires_grad=True)
    for inputs in (rows, rows.detach()):
        torch.testing.assert_close(layer(inputs), F.linear(inputs, layer.weight, layer.bias), rtol=1e-4, atol=1e-4)
    (ours,) = torch.autograd.grad(layer(rows).sum(), rows)
    torch.testing.assert_close(ours, layer.weight.sum(0).expand(shape), rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        layer.pack()
        torch.testing.assert_close(layer(rows), F.linear(rows, layer.weight, layer.bias), rtol=1e-4, atol=1e-4)


@needs_onednn
def test_large_products_without_gradients_go_to_onednn(monkeypatch: pytest.MonkeyPatch):
    calls = []
    monkeypatch.setattr(linear, "multiply", lambda *given: calls.append(1) or F.linear(*given))
    with torch.no_grad():
        make_layer(512, 512)(torch.randn(64, 512))
    assert calls == [1]


@needs_onednn
def test_a_copy_of_a_packed_layer_is_not_packed():
    layer = make_layer(300, 200)
    layer.pack()
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert layer._packed is not None and twin._packed is None
        torch.testing.assert_close(twin.weight, layer.weight)


def test_second_derivatives_are_refused():
    layer = make_layer(512, 512)
    rows = torch.randn(64, 512, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(rows).square().sum(), rows, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize("with_rnn", [True, False])
def test_bfloat16_works_without_the_instructions_for_it(with_rnn):
    code = f"""
import torch, numpy as np
from gymnasium import spaces
from sample_profiler.config import ModelOptions, ObservationOptions
from sample_profiler.model import make_actor_critic
from sample_profiler.model.kernels.linear import can_multiply
from sample_profiler.model.precision import InferenceNetwork, computing_in
space = spaces.Dict({{"obs": spaces.Box(-1, 1, (64,), np.float32)}})
model = make_actor_critic(ModelOptions(use_rnn={with_rnn}), ObservationOptions(), space, spaces.Discrete(3))
assert not can_multiply(torch.ones(1), torch.bfloat16)
network = InferenceNetwork(model, "bf16")
network.refresh()
rows, states = {{"obs": torch.randn(64, 64)}}, torch.zeros(64, model.state_size)
with torch.no_grad(), computing_in("bf16", torch.device("cpu")):
    network.network(model.normalize(rows), states)
with computing_in("bf16", torch.device("cpu")):
    values = model(model.normalize(rows), states)[1]
values.sum().backward()
"""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_single_large_row_is_a_row():
    layer, row = make_layer(2048, 1024), torch.randn(2048)
    torch.testing.assert_close(layer(row), F.linear(row, layer.weight, layer.bias), rtol=1e-4, atol=1e-4)
