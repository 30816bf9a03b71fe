"""Loops of our own give what PyTorch's functions give; everything here is tested with them and without."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from sample_profiler.model import elementwise
from sample_profiler.model.elementwise import Elu, scale_bytes, to_pixels

SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 3, 9, 11), (130, 67)]
PRECISION = {torch.float32: 2e-7, torch.bfloat16: 2**-8}


@pytest.fixture(params=["compiled", "PyTorch's"], autouse=True)
def _kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "PyTorch's":
        monkeypatch.setattr(elementwise, "_kernels", None)
    elif elementwise._kernels is None:
        pytest.skip("there was no compiler")


def test_kernels_are_compiled_where_the_recorder_is() -> None:
    from sample_profiler.profiling import TWIN

    assert (elementwise.KERNELS == "compiled") == (TWIN == "compiled")


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


def test_gradients_of_elu_equal_finite_differences() -> None:
    assert torch.autograd.gradcheck(Elu(), torch.randn(4, 5, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("inplace", [False, True])
def test_elu_changes_its_input_only_if_told(inplace: bool) -> None:
    values = torch.full((3, 4), -1.0)

    activated = Elu(inplace=inplace)(values)

    assert (activated.data_ptr() == values.data_ptr()) == inplace
    assert values.eq(-1.0).all() != inplace


@pytest.mark.parametrize(
    "view", [torch.Tensor.t, lambda x: x[:, ::2], lambda x: x[1:], lambda x: x.expand(2, *x.shape).clone()[0]]
)
def test_elu_of_views_leaves_the_rest_alone(view: object) -> None:
    whole = -torch.ones(6, 8)
    part = view(whole)  # type: ignore[operator]
    expected = F.elu(part)

    assert torch.equal(Elu(inplace=True)(part), expected)
    if part.numel() < whole.numel():
        assert (whole == -1.0).sum() == whole.numel() - part.numel()


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

    scaled = scale_bytes(values, factor, offset, limit)

    exact = (values.double() * factor.double() + offset.double()).clamp(-limit, limit)
    assert scaled.dtype == torch.float32
    torch.testing.assert_close(scaled.double(), exact, rtol=1e-6, atol=2e-6)


def test_bytes_that_are_not_contiguous_are_scaled_as_well() -> None:
    values = torch.randint(0, 256, (6, 8, 2), dtype=torch.uint8)[:, :, 0]
    factor, offset = torch.rand(8, 3)[:, 0], torch.rand(8)

    torch.testing.assert_close(scale_bytes(values, factor, offset, 9.0), (values * factor + offset).clamp(-9, 9))


@pytest.mark.parametrize(("num_channels", "autocast"), [*itertools.product([1, 2, 3, 4, 5], [None, torch.bfloat16])])
def test_pixels_are_the_images_in_the_other_layout(num_channels: int, autocast: torch.dtype | None) -> None:
    images = torch.randn(3, num_channels, 10, 13)

    with torch.autocast("cpu", autocast, enabled=autocast is not None):
        pixels = to_pixels(images)

    assert pixels.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(pixels, images.to(autocast or torch.float32))


def test_pixels_of_images_that_want_gradients_give_them() -> None:
    images = torch.randn(2, 3, 4, 4, requires_grad=True)

    to_pixels(images * 1.0).sum().backward()

    assert images.grad is not None
    assert images.grad.eq(1.0).all()


def test_rounding_to_bfloat16_is_that_of_torch() -> None:
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32) * 2**16  # all numbers of bfloat16, and those half way
    images = torch.cat([every, every + 2**15, every + 2**15 - 1, every + 2**15 + 1]).view(torch.float32)
    images = images.reshape(1, 4, 256, 256)

    with torch.autocast("cpu", torch.bfloat16):
        pixels = to_pixels(images)

    torch.testing.assert_close(pixels, images.bfloat16(), rtol=0.0, atol=0.0, equal_nan=True)
