"""The GRU layer is torch's, forth and back, over sequences of any lengths."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence

from sample_profiler.model.kernels import linear
from sample_profiler.model.kernels.gru import GruWeights, PackedGruWeights, gru_layer, make_kernels
from sample_profiler.model.kernels.linear import can_multiply, multiply

pytestmark = pytest.mark.skipif(not can_multiply(torch.ones(1)), reason="this build of torch has no oneDNN")

BATCH_SIZES = [[5], [5, 5, 5], [6, 4, 4, 1], [1, 1, 1, 1, 1, 1]]


def make(num_inputs, size):
    torch.manual_seed(2)
    layer = torch.nn.GRU(num_inputs, size)
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    return layer, GruWeights(*(getattr(layer, name) for name in names))


def test_a_step_by_hand():
    # One unit, one input: r = σ(2·1 + 1·½), z = σ(-1 + ½), n = tanh(1 + r (½ + 3)), h' = (1 - z) n + z ½.
    weights = GruWeights(
        inputs=torch.tensor([[2.0], [-1.0], [1.0]]),
        hidden=torch.tensor([[1.0], [1.0], [1.0]]),
        inputs_bias=torch.zeros(3),
        hidden_bias=torch.tensor([0.0, 0.0, 3.0]),
    )
    reset, update = torch.sigmoid(torch.tensor(2.5)), torch.sigmoid(torch.tensor(-0.5))
    new = torch.tanh(1 + reset * 3.5)
    expected = (1 - update) * new + update * 0.5
    output = gru_layer(torch.ones(1, 1), torch.full((1, 1), 0.5), weights, [1])
    assert output.item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("batch_sizes", BATCH_SIZES)
@pytest.mark.parametrize(("num_inputs", "size"), [(3, 4), (200, 160)])
def test_outputs_and_gradients_are_torchs(batch_sizes, num_inputs, size):
    layer, weights = make(num_inputs, size)
    rows = torch.randn(sum(batch_sizes), num_inputs, requires_grad=True)
    states = torch.randn(batch_sizes[0], size, requires_grad=True)
    factor = torch.randn(sum(batch_sizes), size)
    expected, _ = layer(PackedSequence(rows, torch.tensor(batch_sizes)), states[None])
    ours = gru_layer(rows, states, weights, batch_sizes)
    torch.testing.assert_close(ours, expected.data, rtol=1e-4, atol=1e-5)
    wanted = [rows, states, *weights]
    gradients = [torch.autograd.grad((output * factor).sum(), wanted) for output in (ours, expected.data)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_gradients_are_those_of_finite_differences():
    _, weights = make(3, 4)
    inputs = [torch.randn(9, 3, dtype=torch.float64), torch.randn(4, 4, dtype=torch.float64)]
    inputs += [tensor.detach().double() for tensor in weights]
    for tensor in inputs:
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(lambda rows, h, *w: gru_layer(rows, h, GruWeights(*w), [4, 3, 2]), inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed_weights_change_nothing_but_the_order_of_sums(dtype):
    if not can_multiply(torch.ones(1), dtype):
        pytest.skip(f"oneDNN does not multiply {dtype} on this processor: nobody packs weights here")
    _, weights = make(200, 160)
    rows, states = torch.randn(16, 200).to(dtype), torch.randn(16, 160).to(dtype)
    with torch.no_grad():
        plain = gru_layer(rows, states, weights, [16])
        packed = gru_layer(rows, states, weights, [16], PackedGruWeights.of(weights.to(dtype)))
    assert plain.dtype == packed.dtype == dtype
    torch.testing.assert_close(plain, packed, rtol=1e-4, atol=1e-5 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("has_gradients", [True, False])
def test_pieces_of_any_number_are_multiplied_in_few_numbers_of_rows(has_gradients, monkeypatch: pytest.MonkeyPatch):
    numbers: set[int] = set()

    def note(rows, weight, bias=None):
        numbers.add(len(rows))
        return multiply(rows, weight, bias)

    monkeypatch.setattr(linear, "multiply", note)
    _, weights = make(16, 512)
    with torch.set_grad_enabled(has_gradients):
        for num_pieces in range(2, 65):
            gru_layer(torch.randn(2 * num_pieces, 16), torch.randn(num_pieces, 512), weights, [num_pieces] * 2)
    assert numbers and numbers <= set(range(8, 129, 8))


def test_layers_of_any_sizes_use_the_same_memory_backwards_one_after_another():
    sizes = [(8, [5, 5, 3]), (24, [9, 2]), (8, [1]), (16, [70] * 3)]
    references = []
    for size, batch_sizes in sizes:
        layer, weights = make(12, size)
        rows = torch.randn(sum(batch_sizes), 12, requires_grad=True)
        states = torch.randn(batch_sizes[0], size, requires_grad=True)
        packed = PackedSequence(rows, torch.tensor(batch_sizes))
        loss = layer(packed, states.unsqueeze(0))[0].data.square().sum()
        references.append((rows, states, weights, batch_sizes, torch.autograd.grad(loss, [rows, states, *weights])))
    losses = [gru_layer(*given[:4]).square().sum() for given in references]
    found = [torch.autograd.grad(loss, [*given[:2], *given[2]]) for loss, given in zip(losses, references, strict=True)]
    for ours, given in zip(found, references, strict=True):  # all of them, after the last has used it
        for gradient, reference in zip(ours, given[4], strict=True):
            torch.testing.assert_close(gradient, reference, rtol=1e-4, atol=1e-5)


def test_no_sequences_are_nothing():
    _, weights = make(12, 8)
    states = torch.zeros(0, 8, requires_grad=True)
    gru_layer(torch.zeros(0, 12), states, weights, []).sum().backward()
    assert states.grad.shape == (0, 8)


def test_kernels_of_products_with_states_are_made_beforehand(monkeypatch: pytest.MonkeyPatch):
    shapes: list[tuple[torch.Size, torch.Size]] = []

    def note(rows, weight, bias=None):
        shapes.append((rows.shape, weight.shape))
        return multiply(rows, weight, bias)

    monkeypatch.setattr(linear, "multiply", note)
    _, weights = make(16, 512)
    make_kernels(weights, 64)
    made = set(shapes)
    assert len(made) == len(shapes) == 2 * 8
    shapes.clear()
    for num_pieces in range(2, 65):
        output = gru_layer(torch.randn(2 * num_pieces, 16), torch.randn(num_pieces, 512), weights, [num_pieces] * 2)
        output.sum().backward()
    through_states = {shape for shape in shapes if 512 in (shape[0][1], shape[1][0]) and shape[0][0] <= 64}
    assert through_states == made


def test_bfloat16_inputs_leave_float32_gradients_of_weights():
    _, weights = make(32, 16)
    rows = torch.randn(12, 32).bfloat16().requires_grad_()
    states = torch.zeros(4, 16, dtype=torch.bfloat16)
    output = gru_layer(rows, states, weights, [4, 4, 4])
    exact = torch.autograd.grad(gru_layer(rows.float(), states.float(), weights, [4, 4, 4]).sum(), weights)
    gradients = torch.autograd.grad(output.float().sum(), [rows, *weights])
    assert gradients[0].dtype == torch.bfloat16
    for ours, reference in zip(gradients[1:], exact, strict=True):
        assert ours.dtype == torch.float32
        assert ((ours - reference).abs().max() / reference.abs().max()).item() < 0.03
