"""Passes of our own through small layers give what PyTorch's give; everything here is tested with them and without."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from sample_profiler.model.kernels import perceptrons
from sample_profiler.model.kernels.kernels import Activation
from sample_profiler.model.kernels.perceptrons import Layers, Stack, as_trained, make_fused_mlp, pass_and_learn
from tests.model.kernels.exact import EXACT, assert_same_whatever_the_default


@pytest.fixture(params=["compiled", "PyTorch's"], autouse=True)
def _perceptrons(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "PyTorch's":
        monkeypatch.setattr(perceptrons, "_perceptrons", None)
    elif perceptrons._perceptrons is None:
        pytest.skip("there was no compiler")


@pytest.mark.parametrize("most_lanes", [1, 8, 16], ids=["portable", "AVX2", "AVX-512"])  # or less, if there is less
@pytest.mark.parametrize("activation", EXACT)
@pytest.mark.parametrize("widths", [(1, 1), (17, 64, 64, 13), (4, 33), (512, 31, 512, 2), (3, 5, 7, 9, 11)])
def test_layers_in_one_pass_equal_torchs_one_by_one(
    widths: tuple[int, ...], activation: Activation, most_lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perceptrons, "_MOST_LANES", most_lanes)
    layers = [(torch.randn(o, i) / i**0.5, torch.randn(o), activation) for i, o in itertools.pairwise(widths)]
    in_one_pass = make_fused_mlp(layers)

    assert (in_one_pass is not None) == (perceptrons._perceptrons is not None)
    if in_one_pass is None:
        return
    some_rows = [torch.randn(num_rows, widths[0]) for num_rows in (0, 1, 3, 4, 16, 21)]
    for rows in (*some_rows, torch.randn(widths[0], 5).t(), torch.randn(7, 2 * widths[0])[:, ::2]):
        exact = rows.double()
        for weight, bias, _ in layers:
            exact = EXACT[activation](F.linear(exact, weight.double(), bias.double()))
        outputs = in_one_pass(rows)
        assert outputs is not None
        assert outputs.dtype == torch.float32
        torch.testing.assert_close(outputs.double(), exact, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("activation", EXACT)
def test_layers_of_bfloat16_in_one_pass_round_where_torchs_do(activation: Activation) -> None:
    (w1, b1), (w2, b2) = (
        ((torch.randn(o, i) / i**0.5).bfloat16(), torch.randn(o).bfloat16()) for i, o in ((9, 70), (70, 40))
    )
    last = torch.randn(3, 40), torch.randn(3)
    in_one_pass = make_fused_mlp([(w1, b1, activation), (w2, b2, activation), (*last, Activation.NONE)])

    if in_one_pass is None:
        assert perceptrons._perceptrons is None
        return
    rows, function = torch.randn(21, 9), EXACT[activation]
    outputs = in_one_pass(rows)
    hidden = rows.bfloat16()
    for weight, bias in ((w1, b1), (w2, b2)):
        exact = F.linear(hidden.double(), weight.double(), bias.double())
        hidden = function(exact.bfloat16().double()).bfloat16()
    expected = F.linear(hidden.double(), last[0].double(), last[1].double())
    assert outputs is not None
    # Where a sum is near the middle between two numbers, another order of its terms rounds it to the other one.
    assert (outputs.double() - expected).abs().median() < 1e-5
    torch.testing.assert_close(outputs.double(), expected, rtol=0.0, atol=0.05)


def test_layers_in_one_pass_keep_nan_in_its_row() -> None:
    in_one_pass = make_fused_mlp([(torch.randn(5, 3), torch.zeros(5), Activation.ELU)])
    rows = torch.randn(6, 3)
    rows[2, 1] = math.nan

    if in_one_pass is not None:
        outputs = in_one_pass(rows)
        assert outputs is not None
        assert outputs.isnan().all(dim=1).tolist() == [row == 2 for row in range(6)]


def test_layers_that_are_wide_or_of_other_types_and_rows_that_do_not_fit_do_not_go_in_one_pass() -> None:
    narrow = (torch.randn(5, 3), torch.zeros(5), Activation.NONE)
    in_one_pass = make_fused_mlp([narrow])

    assert make_fused_mlp([(torch.randn(513, 3), torch.zeros(513), Activation.NONE)]) is None
    assert make_fused_mlp([(torch.randn(3, 513), torch.zeros(3), Activation.NONE)]) is None
    assert make_fused_mlp([(narrow[0].double(), narrow[1].double(), Activation.NONE)]) is None
    if in_one_pass is not None:
        assert in_one_pass(torch.randn(2, 4)) is None
        assert in_one_pass(torch.randn(2, 3).double()) is None
        assert in_one_pass(torch.randn(3)) is None
        assert in_one_pass(torch.randn(perceptrons._MOST_ROWS + 1, 3)) is None
        assert in_one_pass(torch.randn(2, 3, device="meta")) is None


def test_where_libraries_have_many_threads_they_get_what_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = torch.randn(512, 512), None, Activation.NONE

    def most_rows() -> int:
        in_one_pass = make_fused_mlp([layer])
        assert in_one_pass is not None
        return sum(in_one_pass(torch.zeros(num_rows, 512)) is not None for num_rows in range(1, 300))

    if perceptrons._perceptrons is not None:
        assert most_rows() == 256
        monkeypatch.setattr(torch, "get_num_threads", lambda: perceptrons._MOST_THREADS + 1)
        assert most_rows() == 16


def test_layers_in_one_pass_are_of_the_weights_that_they_were_made_from() -> None:
    weight, bias = torch.zeros(32, 1), torch.zeros(32)
    in_one_pass = make_fused_mlp([(weight, bias, Activation.NONE)])
    weight.add_(1.0)
    bias.add_(1.0)

    if in_one_pass is not None:
        outputs = in_one_pass(torch.ones(2, 1))
        assert outputs is not None
        assert outputs.eq(0.0).all()


def as_stack(layers: Layers) -> Stack:
    return Stack(as_trained(layers), [len(layers[-1][0])])


def _learn(rows: torch.Tensor, layers: Layers, weigh: torch.Tensor) -> list[torch.Tensor | None]:
    """Return outputs of layers in one pass, and the gradients of rows and of each parameter; in double: torch's."""
    leaves = [rows, *(tensor for weight, bias, _ in layers for tensor in (weight, bias) if tensor is not None)]
    if rows.dtype == torch.float32:
        passed = pass_and_learn(rows, [as_stack(layers)])
        assert passed is not None
        (outputs,) = passed
    else:
        outputs = rows
        for weight, bias, activation in layers:
            outputs = EXACT[activation](F.linear(outputs, weight, bias))
    asked = [leaf for leaf in leaves if leaf.requires_grad]
    return [outputs.detach(), *torch.autograd.grad((outputs * weigh.to(outputs.dtype)).sum(), asked)]


def _doubled(layers: Layers) -> Layers:
    def double(tensor: torch.Tensor | None) -> torch.Tensor | None:
        return None if tensor is None else tensor.detach().double().requires_grad_(tensor.requires_grad)

    return [(double(weight), double(bias), activation) for weight, bias, activation in layers]  # type: ignore[misc]


@pytest.mark.parametrize("most_lanes", [1, 8, 16], ids=["portable", "AVX2", "AVX-512"])  # or less, if there is less
@pytest.mark.parametrize("activation", EXACT)
@pytest.mark.parametrize("widths", [(1, 1), (17, 64, 64), (4, 33), (512, 31, 512), (3, 5, 7, 9, 11)])
def test_gradients_of_one_pass_equal_torchs_one_by_one(
    widths: tuple[int, ...], activation: Activation, most_lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perceptrons, "_MOST_LANES", most_lanes)
    layers = [
        (torch.randn(o, i).div_(i**0.5).requires_grad_(), torch.randn(o, requires_grad=True), activation)
        for i, o in itertools.pairwise(widths)
    ]
    for num_rows in (1, 3, 4, 64, 257):
        rows = torch.randn(num_rows, widths[0], requires_grad=True)
        weigh = torch.randn(num_rows, widths[-1])
        if perceptrons._perceptrons is None:
            assert pass_and_learn(rows, [as_stack(layers)]) is None
            continue
        exact = _learn(rows.detach().double().requires_grad_(), _doubled(layers), weigh)
        for ours, theirs in zip(_learn(rows, layers, weigh), exact, strict=True):
            assert ours is not None
            assert theirs is not None
            assert ours.dtype == torch.float32
            torch.testing.assert_close(
                ours.double(), theirs, rtol=1e-4, atol=1e-5 * max(1.0, float(theirs.abs().max()))
            )


def test_only_gradients_that_are_wanted_are_computed_and_layers_may_have_no_bias() -> None:
    layers = [
        (torch.randn(6, 3), None, Activation.TANH),
        (torch.randn(2, 6, requires_grad=True), torch.randn(2), Activation.NONE),
    ]
    rows, weigh = torch.randn(5, 3), torch.randn(5, 2)

    if perceptrons._perceptrons is not None:
        ours, exact = _learn(rows, layers, weigh), _learn(rows.double(), _doubled(layers), weigh)
        assert len(ours) == len(exact) == 2
        torch.testing.assert_close(ours[1], exact[1].float(), rtol=1e-4, atol=1e-5)  # type: ignore[union-attr]


def test_a_pass_that_is_learned_from_keeps_nan_and_notices_weights_that_have_changed() -> None:
    weight = torch.randn(4, 3, requires_grad=True)
    layers = [(weight, torch.zeros(4), Activation.RELU)]
    rows = torch.ones(6, 3)
    rows[2, 1] = math.nan

    if perceptrons._perceptrons is not None:
        passed = pass_and_learn(rows, [as_stack(layers)])
        assert passed is not None
        (outputs,) = passed
        assert outputs.isnan().all(dim=1).tolist() == [row == 2 for row in range(6)]
        with torch.no_grad():
            weight.add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            outputs.sum().backward()


def test_what_is_large_or_of_another_kind_or_needs_no_gradient_is_left_to_torch() -> None:
    layer = (torch.randn(5, 3, requires_grad=True), torch.zeros(5), Activation.TANH)
    rows = torch.randn(2, 3)

    assert (pass_and_learn(rows, [as_stack([layer])]) is None) == (perceptrons._perceptrons is None)
    with torch.no_grad():
        assert pass_and_learn(rows, [as_stack([layer])]) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert pass_and_learn(rows, [as_stack([layer])]) is None
    for other in (rows.double(), rows[:, None], torch.randn(0, 3), rows.to("meta"), torch.randn(2_000_000, 3)):
        assert pass_and_learn(other, [as_stack([layer])]) is None
    for weight in (torch.randn(513, 3), torch.randn(5, 3).double(), torch.randn(3, 5).t()):
        assert pass_and_learn(rows, [as_stack([(weight, None, Activation.TANH)])]) is None


def test_default_type_and_device_of_the_user_change_nothing() -> None:
    rows, tall, wide = torch.rand(2, 3), torch.rand(40, 3, requires_grad=True), torch.rand(3, 40)
    layers = [(tall, tall.detach()[:, 0], Activation.TANH), (wide, wide[:, 0], Activation.ELU)]

    def compute() -> list[torch.Tensor | None]:
        in_one_pass = make_fused_mlp(layers)
        learned = pass_and_learn(rows, [as_stack(layers)])
        return [in_one_pass and in_one_pass(rows), *(learned or ()), *(_gradient(learned[0], tall) if learned else ())]

    assert_same_whatever_the_default(compute)


def _gradient(outputs: torch.Tensor, of: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(outputs, of, torch.ones(outputs.shape, dtype=torch.float32, device="cpu"))


@pytest.mark.parametrize("wants_rows", [False, True])
def test_stacks_go_through_the_same_rows_and_parts_of_a_layer_lie_side_by_side(wants_rows: bool) -> None:
    def leaf(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, requires_grad=True)

    rows = torch.randn(9, 5, requires_grad=wants_rows)
    hidden, bias, mean, mean_bias, stddev, value, other = (
        *(leaf(7, 5), leaf(7), leaf(2, 7), leaf(2), leaf(2), leaf(1, 7), leaf(3, 5)),
    )
    first = Stack(
        [([(hidden, bias)], Activation.TANH), ([(mean, mean_bias), (None, stddev), (value, None)], Activation.NONE)],
        [4, 1],
    )
    passed = pass_and_learn(rows, [first, Stack([([(other, None)], Activation.ELU)], [1, 2])])
    if passed is None:
        assert perceptrons._perceptrons is None
        return
    inner = torch.tanh(F.linear(rows, hidden, bias))
    parameters = torch.cat([F.linear(inner, mean, mean_bias), stddev.expand(9, 2)], dim=1)
    exact = [parameters, F.linear(inner, value), *F.elu(F.linear(rows, other)).split([1, 2], dim=1)]
    leaves = [hidden, bias, mean, mean_bias, stddev, value, other, *([rows] if wants_rows else [])]
    weigh = [torch.randn(each.shape) for each in exact]
    gradients = [
        torch.autograd.grad(sum((o * w).sum() for o, w in zip(outputs, weigh, strict=True)), leaves)  # type: ignore[arg-type]
        for outputs in (passed, exact)
    ]
    for ours, theirs in zip([*passed, *gradients[0]], [*exact, *gradients[1]], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_outputs_of_which_nobody_learns_have_no_gradient() -> None:
    weight = torch.randn(3, 2, requires_grad=True)
    passed = pass_and_learn(torch.ones(4, 2), [Stack([([(weight, None)], Activation.NONE)], [1, 2])])
    if passed is not None:
        passed[1].sum().backward()
        assert weight.grad is not None
        assert weight.grad.tolist() == [[0.0, 0.0], [4.0, 4.0], [4.0, 4.0]]


def test_shapes_that_torch_would_stretch_or_refuse_are_left_to_it() -> None:
    rows, weight = torch.randn(4, 8), torch.randn(64, 8, requires_grad=True)
    for bias in (torch.zeros(1), torch.zeros(64, 1), torch.zeros(65)):
        assert pass_and_learn(rows, [as_stack([(weight, bias, Activation.NONE)])]) is None
    assert pass_and_learn(torch.randn(4, 9), [as_stack([(weight, None, Activation.NONE)])]) is None
    second = torch.randn(3, 63)
    assert pass_and_learn(rows, [as_stack([(weight, None, Activation.NONE), (second, None, Activation.NONE)])]) is None


def test_weights_that_are_saved_elsewhere_are_read_there() -> None:
    weight, second = torch.randn(6, 3, requires_grad=True), torch.randn(2, 6, requires_grad=True)
    rows = torch.randn(5, 3)

    def outputs() -> torch.Tensor:
        layers = [(weight * 1.0, None, Activation.TANH), (second * 1.0, None, Activation.NONE)]  # gone when it returns
        passed = pass_and_learn(rows, [as_stack(layers)])
        return (rows @ weight.t()).tanh() @ second.t() if passed is None else passed[0]

    expected = torch.autograd.grad(outputs().square().sum(), [weight, second])
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.detach().clone(), lambda tensor: tensor):
        total = outputs().square().sum()
    others = [torch.full((n,), 7.0) for n in (18, 12, 18, 12)]  # for whom there is room now
    for ours, theirs in zip(torch.autograd.grad(total, [weight, second]), expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert others


def test_gradients_may_be_asked_for_twice() -> None:
    weight = torch.randn(6, 3, requires_grad=True)
    passed = pass_and_learn(torch.randn(5, 3), [as_stack([(weight, None, Activation.TANH)])])
    if passed is not None:
        total = passed[0].sum()
        first, second = (torch.autograd.grad(total, weight, retain_graph=True)[0] for _ in range(2))
        assert torch.equal(first, second)


def test_where_libraries_have_many_threads_they_learn_what_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = as_stack([(torch.randn(128, 128, requires_grad=True), None, Activation.TANH)])
    if perceptrons._perceptrons is not None:
        assert pass_and_learn(torch.randn(512, 128), [stack]) is not None
        monkeypatch.setattr(torch, "get_num_threads", lambda: perceptrons._MOST_THREADS + 1)
        assert pass_and_learn(torch.randn(512, 128), [stack]) is None
        assert pass_and_learn(torch.randn(64, 128), [stack]) is not None
