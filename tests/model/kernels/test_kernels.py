"""Loops of our own give what PyTorch's functions give; everything here is tested with them and without."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import math
import pickle
import runpy
import sys
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from sample_profiler.model import kernels as package
from sample_profiler.model.kernels import built, kernels
from sample_profiler.model.kernels.kernels import (
    Activation,
    Elu,
    activate_in_place,
    draw,
    draw_normal,
    scale,
    scale_to_pixels,
    sum_bytes,
    to_pixels,
)
from tests.model.kernels.exact import EXACT, assert_same_whatever_the_default

SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 3, 9, 11), (130, 67)]
PRECISION = {torch.float32: 2e-7, torch.bfloat16: 2**-8}


@pytest.fixture(params=["compiled", "PyTorch's"], autouse=True)
def _kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "PyTorch's":
        monkeypatch.setattr(kernels, "_kernels", None)
    elif kernels._kernels is None:
        pytest.skip("there was no compiler")


def test_kernels_are_there_where_they_were_built() -> None:
    is_built = importlib.util.find_spec("sample_profiler.model.kernels._kernels") is not None

    assert (built.KERNELS == "compiled") == built.ARE_BUILT == is_built


@pytest.mark.parametrize("name", ["_objective", "_perceptrons"])
def test_of_kernels_that_were_built_before_some_came_none_is_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not built.ARE_BUILT:
        pytest.skip("there was no compiler")
    monkeypatch.setitem(sys.modules, f"{package.__name__}.{name}", None)
    monkeypatch.delattr(package, name)
    found = runpy.run_path(built.__file__)
    assert not found["ARE_BUILT"]
    assert found["KERNELS"] == "PyTorch's, those compiled are of an earlier version: install again"


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("shape", SHAPES)
def test_elu_equals_its_definition_in_double_precision(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    values = (torch.randn(shape) * 10 ** (torch.rand(shape) * 6 - 4)).to(dtype)

    activated = Elu()(values.clone())

    exact = torch.where(values > 0, values.double(), torch.expm1(values.double()))
    assert activated.dtype == dtype
    torch.testing.assert_close(activated.double(), exact, rtol=PRECISION[dtype], atol=0.0)


@pytest.mark.parametrize("dtype", PRECISION)
def test_elu_of_numbers_that_are_special(dtype: torch.dtype) -> None:
    inf, nan = float("inf"), float("nan")
    values = torch.tensor([0.0, -0.0, inf, -inf, nan, -1e30, 1e30, -86.9, -87.1, -104.0, -1e-20, 1e-20] * 3).to(dtype)

    activated = Elu()(values.clone())

    torch.testing.assert_close(activated, F.elu(values), equal_nan=True, rtol=PRECISION[dtype], atol=0.0)


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("inplace", [False, True])
def test_gradients_of_elu_equal_those_of_torch(dtype: torch.dtype, inplace: bool) -> None:
    start = torch.randn(5, 40).to(dtype)
    weights = torch.randn(5, 40).to(dtype)
    gradients = []
    # In place: that takes the derivative from the rounded result, as Elu does in both cases.
    for function in (Elu(inplace=inplace), partial(F.elu, inplace=True)):
        values = start.clone().requires_grad_()
        (function(values * 1.0) * weights).sum().backward()
        gradients.append(values.grad)

    torch.testing.assert_close(gradients[0], gradients[1], rtol=2 * PRECISION[dtype], atol=2 * PRECISION[dtype])


@pytest.mark.parametrize("inplace", [False, True])
def test_gradients_of_elu_equal_its_derivative(inplace: bool) -> None:
    values = torch.linspace(-3.0, 3.0, 40, requires_grad=True)  # without 0, where there are two derivatives

    Elu(inplace=inplace)(values * 1.0).sum().backward()

    assert values.grad is not None
    torch.testing.assert_close(values.grad, values.detach().double().clamp_max(0).exp().float())


@pytest.mark.parametrize("inplace", [False, True])
def test_gradients_of_images_come_in_either_layout(inplace: bool) -> None:
    start, weights = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    gradients = []
    for function in (Elu(inplace=inplace), F.elu):
        values = start.to(memory_format=torch.channels_last, copy=True).requires_grad_()
        (function(values * 1.0) * weights).sum().backward()
        gradients.append(values.grad)

    torch.testing.assert_close(gradients[0], gradients[1])


def test_elu_used_twice_gives_the_gradient_of_both() -> None:
    values = torch.tensor([-1.0, 2.0], requires_grad=True)
    activated = Elu(inplace=True)(values * 1.0)

    (activated + 3 * activated.square()).sum().backward()

    y = F.elu(values.detach())
    assert values.grad is not None
    torch.testing.assert_close(values.grad, (1 + 6 * y) * torch.tensor([1.0, 1.0]).where(y > 0, y + 1))


def test_elu_in_place_raises_where_autograd_needs_what_it_overwrites() -> None:
    weights, frozen = torch.ones(5, requires_grad=True), -torch.ones(5)
    product = (weights * frozen).sum()
    Elu(inplace=True)(frozen)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_elu_in_place_of_a_leaf_raises_and_leaves_it_as_it_was() -> None:
    leaf = (-torch.ones(5)).requires_grad_()

    with pytest.raises(RuntimeError, match="leaf"):
        Elu(inplace=True)(leaf)

    assert leaf.eq(-1.0).all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_elu_of_whole_numbers_raises(dtype: torch.dtype) -> None:
    with pytest.raises((RuntimeError, NotImplementedError)):
        Elu()(torch.ones(8, dtype=dtype))


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.*")
def test_elu_can_be_traced_copied_and_pickled() -> None:
    values, elu = torch.randn(4, 6), Elu()
    traced = torch.jit.trace(elu, torch.zeros(4, 6))

    with torch.inference_mode():
        for each in (traced, copy.deepcopy(elu), pickle.loads(pickle.dumps(elu))):
            torch.testing.assert_close(each(values), F.elu(values))


@pytest.mark.parametrize("inplace", [False, True])
def test_elu_changes_its_input_only_if_told(inplace: bool) -> None:
    values = torch.full((3, 4), -1.0)

    activated = Elu(inplace=inplace)(values)

    assert (activated.data_ptr() == values.data_ptr()) == inplace
    assert values.eq(-1.0).all() != inplace


@pytest.mark.parametrize("view", [torch.Tensor.t, lambda x: x[:, ::2], lambda x: x[1:]])
def test_elu_of_views_leaves_the_rest_alone(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    whole = -torch.ones(6, 8)
    part = view(whole)
    expected = F.elu(part)

    with torch.no_grad():
        assert torch.equal(Elu(inplace=True)(part), expected)

    assert (whole == -1.0).sum() == whole.numel() - part.numel()


def test_gradients_of_a_view_reach_what_it_is_a_view_of() -> None:
    gradients = []
    for function in (Elu(inplace=True), partial(F.elu, inplace=True)):
        values = (-torch.ones(6, 8)).requires_grad_()
        whole = values * 1.0
        function(whole[1:3])
        whole.sum().backward()
        gradients.append(values.grad)

    torch.testing.assert_close(gradients[0], gradients[1])


def test_elu_of_one_number_shown_many_times() -> None:
    shown = (-torch.ones(1)).expand(5)

    torch.testing.assert_close(Elu()(shown), F.elu(shown))
    with torch.no_grad(), pytest.raises(RuntimeError):
        Elu(inplace=True)(shown)


def test_elu_keeps_the_layout_of_images() -> None:
    images = torch.randn(2, 3, 5, 7).to(memory_format=torch.channels_last)

    activated = Elu()(images)

    assert activated.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(activated, F.elu(images))


@pytest.mark.parametrize("limit", [5.0, float("inf")])
@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (3, 17), (5, 3, 9, 16)])
def test_scaled_bytes_equal_their_formula(shape: tuple[int, ...], limit: float) -> None:
    values = torch.randint(0, 256, shape, dtype=torch.uint8)
    factor, offset = torch.randn(shape[1:]) / 20, torch.randn(shape[1:])

    scaled = scale(values, factor, offset, limit)

    assert (scaled is not None) == (kernels._kernels is not None)
    if scaled is not None:
        exact = (values.double() * factor.double() + offset.double()).clamp(-limit, limit)
        assert scaled.dtype == torch.float32
        torch.testing.assert_close(scaled.double(), exact, rtol=1e-6, atol=2e-6)


def test_scaled_bytes_keep_nan_and_infinity_apart() -> None:
    coefficients = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0])

    scaled = scale(torch.ones(1, 4, dtype=torch.uint8), coefficients, torch.zeros(4), 5.0)

    if scaled is not None:
        torch.testing.assert_close(scaled, torch.tensor([[float("nan"), 5.0, -5.0, 1.0]]), equal_nan=True)


@pytest.mark.parametrize(
    ("values", "factor", "offset"),
    [
        (torch.zeros(6, 8).half(), torch.ones(8), torch.ones(8)),
        (torch.zeros(6, 8, 2, dtype=torch.uint8)[:, :, 0], torch.ones(8), torch.ones(8)),
        (torch.zeros(6, 8, dtype=torch.uint8), torch.ones(()), torch.ones(())),
        (torch.zeros(6, 8, dtype=torch.uint8), torch.ones(8), torch.ones(7)),
        (torch.zeros(6, 8, dtype=torch.uint8), torch.ones(9), torch.ones(9)),
        (torch.zeros(6, 8, dtype=torch.uint8), torch.ones(8).double(), torch.ones(8)),
        (torch.zeros(6, 8, dtype=torch.uint8), torch.ones(8), torch.ones(8, 2)[:, 0]),
    ],
)
def test_what_does_not_fit_is_not_scaled(values: torch.Tensor, factor: torch.Tensor, offset: torch.Tensor) -> None:
    assert scale(values, factor, offset, 5.0) is None


@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (3, 17), (2, 5000), (5, 3, 9, 16), (66_000, 3)])
def test_sums_of_bytes_are_exact(shape: tuple[int, ...]) -> None:
    rows = torch.randint(0, 256, shape, dtype=torch.uint8)
    rows[..., 0] = 255  # 66,000 of their squares are more than 32 bits hold

    found = sum_bytes(rows)

    if kernels._kernels is None:
        assert found is None
    else:
        assert found is not None
        for sums, exact in zip(found, (rows.long().sum(0), rows.long().square().sum(0)), strict=True):
            assert torch.equal(sums, exact.double())


@pytest.mark.parametrize("rows", [torch.ones(4, 3), torch.zeros(4, 6, dtype=torch.uint8)[:, ::2]])
def test_what_is_no_dense_bytes_is_not_summed(rows: torch.Tensor) -> None:
    assert sum_bytes(rows) is None


@pytest.mark.parametrize(("num_channels", "autocast"), [*itertools.product([1, 2, 3, 4, 5], [None, torch.bfloat16])])
def test_pixels_are_the_images_in_the_other_layout(num_channels: int, autocast: torch.dtype | None) -> None:
    images = torch.randn(3, num_channels, 10, 13)

    with torch.autocast("cpu", autocast, enabled=autocast is not None):
        pixels = to_pixels(images)

    if kernels._kernels is None or num_channels not in (3, 4):
        assert pixels is images
    else:
        assert pixels.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(pixels, images.to(autocast or torch.float32))


@pytest.mark.parametrize(
    "images",
    [
        torch.randn(2, 3, 4, 6).transpose(2, 3),
        torch.randn(2, 3, 4, 6).to(memory_format=torch.channels_last),
        torch.randn(2, 3, 4, 6).double(),
        torch.randn(2, 3, 4, 6, requires_grad=True),
    ],
)
def test_images_that_do_not_fit_stay_as_they_are(images: torch.Tensor) -> None:
    assert to_pixels(images) is images


@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (1, 4, 1, 1), (3, 3, 10, 13), (2, 4, 72, 128)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bytes_become_pixels_in_one_pass_as_in_two(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    images = torch.randint(0, 256, shape, dtype=torch.uint8)
    factor, offset = torch.randn(shape[1:]) / 20, torch.randn(shape[1:])

    with torch.autocast("cpu", dtype, enabled=dtype == torch.bfloat16):
        scaled = scale(images, factor, offset, 5.0)
        pixels = scale_to_pixels(images, factor, offset, 5.0)
        assert (pixels is None) == (scaled is None) == (kernels._kernels is None)
        if scaled is None or pixels is None:
            return
        assert torch.equal(pixels, to_pixels(scaled))
    assert pixels.is_contiguous(memory_format=torch.channels_last) and pixels.dtype == dtype
    again = scale_to_pixels(images, offset, factor, 5.0, dtype=dtype, into=pixels)
    assert again is not None and again.data_ptr() == pixels.data_ptr()
    exact = (images.double() * offset.double() + factor.double()).clamp(-5.0, 5.0)
    torch.testing.assert_close(again.double(), exact, rtol=2**-8 if dtype == torch.bfloat16 else 1e-6, atol=2e-6)


@pytest.mark.parametrize("other", [torch.zeros(1, 3, 4, 5), torch.zeros(2, 3, 4, 5).double()])
def test_pixels_overwrite_nothing_of_another_kind(other: torch.Tensor) -> None:
    images = torch.ones(2, 3, 4, 5, dtype=torch.uint8)

    pixels = scale_to_pixels(images, torch.ones(3, 4, 5), torch.ones(3, 4, 5), 5.0, into=other)

    assert not other.any()
    assert pixels is None or torch.equal(pixels, torch.full((2, 3, 4, 5), 2.0))


@pytest.mark.parametrize(
    ("images", "shape_of_coefficients"),
    [
        (torch.zeros(2, 3, 4, 5), (3, 4, 5)),
        (torch.zeros(2, 2, 4, 5, dtype=torch.uint8), (2, 4, 5)),
        (torch.zeros(2, 3, 20, dtype=torch.uint8), (3, 20)),
        (torch.zeros(2, 3, 5, 4, dtype=torch.uint8).transpose(2, 3), (3, 4, 5)),
        (torch.zeros(2, 3, 4, 5, dtype=torch.uint8), ()),
    ],
)
def test_what_is_no_image_of_bytes_does_not_become_pixels(
    images: torch.Tensor, shape_of_coefficients: tuple[int, ...]
) -> None:
    assert scale_to_pixels(images, torch.ones(shape_of_coefficients), torch.ones(shape_of_coefficients), 5.0) is None


def test_many_threads_leave_much_work_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    values = torch.zeros(2, kernels._MUCH, dtype=torch.uint8)

    assert scale(values, torch.ones(values.shape[1]), torch.ones(values.shape[1]), 5.0) is None
    assert (scale(values[:, :8].clone(), torch.ones(8), torch.ones(8), 5.0) is None) == (kernels._kernels is None)


def test_rounding_to_bfloat16_is_that_of_torch() -> None:
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32) * 2**16  # all numbers of bfloat16, and those half way
    images = torch.cat([every, every + 2**15, every + 2**15 - 1, every + 2**15 + 1]).view(torch.float32)
    images = images.reshape(1, 4, 256, 256)

    with torch.autocast("cpu", torch.bfloat16):
        pixels = to_pixels(images)

    torch.testing.assert_close(pixels.bfloat16(), images.bfloat16(), rtol=0.0, atol=0.0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("limit", [5.0, float("inf")])
def test_scaled_floats_equal_their_formula(limit: float, dtype: torch.dtype) -> None:
    values, factor, offset = torch.randn(9, 17, dtype=dtype) * 4, torch.randn(17), torch.randn(17)

    scaled = scale(values, factor, offset, limit)

    assert (scaled is not None) == (kernels._kernels is not None)
    if scaled is not None:
        expected = (values.float() * factor + offset).clamp(-limit, limit)
        torch.testing.assert_close(scaled, expected, rtol=1e-5, atol=1e-6)


def test_scaled_floats_leave_nan_to_be_noticed() -> None:
    scaled = scale(torch.full((1, 3), float("nan")), torch.ones(3), torch.ones(3), 5.0)

    assert scaled is None or scaled.isnan().all()


@pytest.mark.parametrize("activation", EXACT)
@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("shape", SHAPES)
def test_activations_equal_their_definitions_in_double_precision(
    shape: tuple[int, ...], dtype: torch.dtype, activation: Activation
) -> None:
    if kernels._kernels is None:
        pytest.skip("only for where they are there")
    inf, nan = float("inf"), float("nan")
    special = torch.tensor([0.0, -0.0, inf, -inf, nan, -1e30, 1e30, 43.4, -43.6, 9.0, -1e-20, 1e-20]).to(dtype)
    for values in (special, (torch.randn(shape) * 10 ** (torch.rand(shape) * 6 - 4)).to(dtype)):
        activated = activate_in_place(values.clone(), activation)

        exact = EXACT[activation](values.double())
        assert activated.dtype == dtype
        tolerance = 2 * PRECISION[dtype]
        torch.testing.assert_close(activated.double(), exact, rtol=tolerance, atol=0.0, equal_nan=True)


@pytest.mark.parametrize("num_actions", [1, 2, 7, 40])
def test_drawn_actions_are_the_first_to_arrive_and_have_the_logarithm_of_their_softmax(num_actions: int) -> None:
    logits = torch.randn(200, num_actions) * 5
    waiting_times = torch.empty_like(logits).exponential_(generator=torch.Generator().manual_seed(3))

    drawn = draw(logits, waiting_times)

    assert (drawn is not None) == (kernels._kernels is not None)
    if drawn is not None:
        exact = F.log_softmax(logits.double(), dim=-1)
        expected = (exact - waiting_times.double().log()).argmax(dim=-1, keepdim=True)
        assert torch.equal(drawn[0], expected)
        torch.testing.assert_close(drawn[1].double(), exact.gather(-1, expected).squeeze(-1), rtol=1e-5, atol=2e-6)


def test_what_is_forbidden_is_never_drawn_and_nan_is_noticed() -> None:
    logits = torch.full((1000, 4), -1e9)
    logits[:, 2] = -300.0
    logits[:, 3] = -301.0
    drawn = draw(logits, torch.empty_like(logits).exponential_(generator=torch.Generator().manual_seed(3)))
    spoilt = draw(torch.tensor([[0.0, float("nan"), 0.0], [float("nan"), 0.0, 1.0]]), torch.ones(2, 3))

    if drawn is not None:
        assert set(drawn[0].flatten().tolist()) == {2, 3}
        # All that one may do is so unlikely as a number that only differences tell anything.
        assert (drawn[0] == 2).float().mean() == pytest.approx(1 / (1 + math.exp(-1)), abs=0.05)
    if spoilt is not None:
        assert spoilt[1].isnan().all()
        assert ((spoilt[0] >= 0) & (spoilt[0] < 3)).all()


def test_gradients_are_left_to_torch() -> None:
    logits = torch.zeros(2, 3, requires_grad=True)

    assert draw(logits, torch.ones(2, 3)) is None
    assert scale(logits, torch.ones(3), torch.ones(3), 5.0) is None


@pytest.mark.parametrize(
    ("logits", "waiting_times"),
    [
        (torch.zeros(2, 3), torch.ones(1, 3)),
        (torch.zeros(2, 3), torch.ones(2, 3).double()),
        (torch.zeros(3), torch.ones(3)),
        (torch.zeros(2, 0), torch.ones(2, 0)),
    ],
)
def test_what_does_not_fit_is_not_drawn_from(logits: torch.Tensor, waiting_times: torch.Tensor) -> None:
    assert draw(logits, waiting_times) is None


def test_parts_of_wider_rows_are_drawn_from() -> None:
    logits, waiting_times = torch.randn(5, 6), torch.rand(5, 6)

    drawn, expected = draw(logits[:, 1:4], waiting_times[:, 1:4]), None
    if kernels._kernels is not None:
        expected = draw(logits[:, 1:4].contiguous(), waiting_times[:, 1:4].contiguous())
        assert drawn is not None
        assert expected is not None
        assert torch.equal(drawn[0], expected[0])
        assert torch.equal(drawn[1], expected[1])
    else:
        assert drawn is None


@pytest.mark.parametrize("num_entries", [1, 6])
def test_drawn_normal_actions_are_means_and_noise_and_have_the_logarithm_of_their_density(num_entries: int) -> None:
    parameters = torch.randn(50, 2 * num_entries) * 3
    parameters[0, num_entries:], parameters[1, num_entries:] = -100.0, 100.0
    noise = torch.randn(50, num_entries)

    drawn = draw_normal(parameters, noise, -4.0, 5.0)

    assert (drawn is not None) == (kernels._kernels is not None)
    if drawn is not None:
        mean, log_stddev = parameters.double().chunk(2, dim=-1)
        stddev = log_stddev.clamp(-4.0, 5.0).exp()
        torch.testing.assert_close(drawn[0].double(), mean + noise.double() * stddev, rtol=1e-5, atol=1e-6)
        exact = torch.distributions.Normal(mean, stddev).log_prob(drawn[0].double()).sum(-1)
        # An action is rounded, which a small deviation from a large mean feels.
        torch.testing.assert_close(drawn[1].double(), exact, rtol=1e-4, atol=1e-4)


def test_normal_actions_of_nan_are_noticed_and_what_does_not_fit_is_not_drawn() -> None:
    nan = draw_normal(torch.tensor([[1.0, float("nan")], [float("nan"), 0.0]]), torch.ones(2, 1), -4.0, 5.0)

    if nan is not None:
        assert nan[0].isnan().all()
        assert nan[1].isnan().all()
    assert draw_normal(torch.zeros(2, 4, requires_grad=True), torch.ones(2, 2), -4.0, 5.0) is None
    assert draw_normal(torch.zeros(2, 4), torch.ones(2, 3), -4.0, 5.0) is None
    assert draw_normal(torch.zeros(2, 4), torch.ones(1, 2), -4.0, 5.0) is None
    assert draw_normal(torch.zeros(2, 4), torch.ones(2, 2).double(), -4.0, 5.0) is None


def test_default_type_and_device_of_the_user_change_nothing() -> None:
    images = torch.rand(2, 3, 5, 4)
    given = (
        *(torch.randint(0, 256, (2, 4), dtype=torch.uint8), torch.ones(4), torch.ones(4)),
        *(torch.randn(2, 3), torch.ones(2, 3)),
    )

    def compute() -> list[torch.Tensor | None]:
        values, factor, offset, logits, waiting_times = given
        return [scale(values, factor, offset, 5.0), *(draw(logits, waiting_times) or ()), to_pixels(images)]

    assert_same_whatever_the_default(compute)
