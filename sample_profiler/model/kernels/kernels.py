"""Owns work of networks that we do ourselves on processors: normalization, layout of images, activations, draws.

Loops of our own (``_kernels.c``) where there was a compiler at installation and the tensors are such that they apply;
PyTorch's functions elsewhere, with equal results up to rounding. ``docs/performance.md`` has the figures.
"""

from __future__ import annotations

import enum
from typing import Any

import torch
from torch import Tensor, nn

from sample_profiler.model.kernels.built import ARE_BUILT

__all__ = [
    *(
        "Activation",
        "Elu",
        "activate_in_place",
        "draw",
        "draw_normal",
        "has_kernels_for",
        "is_traced",
        "scale",
        "scale_to_pixels",
    ),
    *("sum_bytes", "to_pixels"),
]

if ARE_BUILT:
    from sample_profiler.model.kernels import _kernels
else:
    _kernels = None  # type: ignore[assignment]

_NUMBERS = (torch.float32, torch.bfloat16)
_SCALED = (torch.uint8, torch.float32, torch.float64)
_CHANNELS = (3, 4)
"""Numbers of channels that our loop puts side by side."""

_MOST_THREADS = 4
"""Our loops have one thread; with more than this PyTorch's are quicker where there is much to do."""

_MUCH = 1 << 17

_CPU = torch.device("cpu")
"""Device of every tensor that a loop writes into, whatever default the user has set."""


class Activation(enum.IntEnum):
    """What follows a layer; the numbers are those of ``loops.h``."""

    NONE = 0
    ELU = 1
    RELU = 2
    TANH = 3


class Elu(nn.ELU):
    """The exponential linear unit (Clevert et al. 2015, arXiv:1511.07289) with alpha 1."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)

    def forward(self, values: Tensor) -> Tensor:
        """Return numbers of any shape, negative ones replaced by ``exp(x) - 1``."""
        wants_gradient = _wants_gradient(values)
        if not has_kernels_for(values) or not _is_dense(values):
            return super().forward(values)
        if self.inplace and torch.is_grad_enabled() and (values.is_leaf or not wants_gradient):
            return super().forward(values)  # autograd has to hear of it: it raises, or somebody else kept the values
        values = values if self.inplace else values.clone()
        if wants_gradient:
            activated: Tensor = _EluInPlace.apply(values)  # type: ignore[no-untyped-call]
            return activated
        return activate_in_place(values, Activation.ELU)


class _EluInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        ctx.mark_dirty(values)
        ctx.save_for_backward(activate_in_place(values, Activation.ELU))
        return values

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (activated,) = ctx.saved_tensors
        gradient: Tensor = torch.ops.aten.elu_backward(gradients[0], 1.0, 1.0, 1.0, True, activated)
        return gradient


def activate_in_place(values: Tensor, activation: Activation) -> Tensor:
    """Overwrite numbers with their activation by our own loops, which have to be there; knows no gradients.

    Args:
        values: Dense, float32 or bfloat16, on a processor.
        activation: Which.
    """
    if activation:
        _kernels.activate(values.data_ptr(), values.numel(), values.dtype == torch.bfloat16, activation)
    return values


def scale(values: Tensor, factor: Tensor, offset: Tensor, limit: float) -> Tensor | None:
    """Return ``factor * x + offset``, kept within plus and minus a limit; None where our loop does not apply.

    Args:
        values: ``[N, ...]`` uint8, float32 or float64, which is rounded to float32.
        factor: ``[...]`` float32.
        offset: ``[...]`` float32.
        limit: May be infinite.

    Returns:
        ``[N, ...]`` float32.
    """
    if not has_kernels_for(values, _SCALED) or not values.is_contiguous() or _wants_gradient(values):
        return None
    if not _are_coefficients(factor, offset, values.shape[1:]):
        return None
    scaled = torch.empty(values.shape, dtype=torch.float32, device=_CPU)
    addresses = values.data_ptr(), factor.data_ptr(), offset.data_ptr(), scaled.data_ptr()
    _kernels.scale(*addresses, len(values), factor.numel(), limit, values.itemsize)
    return scaled


def scale_to_pixels(
    values: Tensor,
    factor: Tensor,
    offset: Tensor,
    limit: float,
    *,
    dtype: torch.dtype | None = None,
    into: Tensor | None = None,
) -> Tensor | None:
    """Return what :func:`to_pixels` makes of what :func:`scale` returns, in one pass; None where it does not apply.

    Args:
        values: ``[N, C, H, W]`` uint8.
        factor: ``[C, H, W]`` float32.
        offset: ``[C, H, W]`` float32.
        limit: May be infinite.
        dtype: Of the result, float32 or bfloat16; None: that of autocast.
        into: Is overwritten and returned if it is of the result's shape, type and layout.

    Returns:
        ``[N, C, H, W]``, channels last.
    """
    dtype = dtype or _dtype_of_autocast()
    if values.ndim != 4 or values.shape[1] not in _CHANNELS or dtype not in _NUMBERS:
        return None
    if not has_kernels_for(values, (torch.uint8,)) or not values.is_contiguous():
        return None
    if not _are_coefficients(factor, offset, values.shape[1:]):
        return None
    if into is not None and into.shape == values.shape and into.dtype == dtype:
        pixels = into.contiguous(memory_format=torch.channels_last)
    else:
        pixels = torch.empty(values.shape, dtype=dtype, device=_CPU, memory_format=torch.channels_last)
    addresses = values.data_ptr(), factor.data_ptr(), offset.data_ptr(), pixels.data_ptr()
    num_images, num_channels, height, width = values.shape
    _kernels.scale_to_pixels(*addresses, num_images, num_channels, height * width, limit, dtype == torch.bfloat16)
    return pixels


def _dtype_of_autocast() -> torch.dtype:
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32


def _are_coefficients(factor: Tensor, offset: Tensor, shape: torch.Size) -> bool:
    for coefficients in (factor, offset):
        is_fitting = coefficients.shape == shape and coefficients.dtype == torch.float32
        if not is_fitting or not coefficients.is_cpu or not coefficients.is_contiguous():
            return False
    return True


def sum_bytes(rows: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the sums of bytes over N, and of their squares; None where our loop does not apply.

    Args:
        rows: ``[N, ...]`` uint8.

    Returns:
        Two times ``[...]`` float64, exact.
    """
    if _kernels is None or not rows.is_cpu or rows.dtype != torch.uint8 or not rows.is_contiguous():
        return None
    sums, squares = (torch.zeros(rows.shape[1:], dtype=torch.float64, device=_CPU) for _ in range(2))
    _kernels.sum_bytes(rows.data_ptr(), sums.data_ptr(), squares.data_ptr(), len(rows), sums.numel())
    return sums, squares


def to_pixels(images: Tensor) -> Tensor:
    """Return images ``[N, C, H, W]`` ready for convolutions on a processor: channels last, in the type of autocast.

    Convolutions take any layout and type, and are quicker with these. Where our loop does not apply, images are
    returned as they are: PyTorch's conversion takes as long as it saves.
    """
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else images.dtype
    is_fitting = images.ndim == 4 and images.shape[1] in _CHANNELS and images.is_contiguous() and dtype in _NUMBERS
    if not is_fitting or images.requires_grad or not has_kernels_for(images, (torch.float32,)):
        return images
    num_images, num_channels, height, width = images.shape
    pixels = torch.empty(images.shape, dtype=dtype, device=_CPU, memory_format=torch.channels_last)
    addresses = images.data_ptr(), pixels.data_ptr()
    _kernels.interleave(*addresses, num_images, num_channels, height * width, dtype == torch.bfloat16)
    return pixels


def draw(logits: Tensor, waiting_times: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return drawn actions and the logarithms of their probabilities; None where our loop does not apply.

    Args:
        logits: ``[N, n]`` float32, n at least 1; those of forbidden actions are far below all others.
        waiting_times: ``[N, n]`` float32, exponentially distributed with rate 1.

    Returns:
        ``[N, 1]`` int64, and ``[N]`` float32.
    """
    if not has_kernels_for(logits, (torch.float32,)) or _wants_gradient(logits):
        return None
    is_fitting = waiting_times.shape == logits.shape and waiting_times.dtype == torch.float32 and waiting_times.is_cpu
    if not is_fitting or logits.ndim != 2 or logits.shape[1] == 0:
        return None
    logits, waiting_times = logits.contiguous(), waiting_times.contiguous()  # parts of an action are side by side
    num_rows, num_actions = logits.shape
    actions = torch.empty(num_rows, 1, dtype=torch.int64, device=_CPU)
    log_probabilities = torch.empty(num_rows, dtype=torch.float32, device=_CPU)
    addresses = logits.data_ptr(), waiting_times.data_ptr(), actions.data_ptr(), log_probabilities.data_ptr()
    _kernels.draw(*addresses, num_rows, num_actions)
    return actions, log_probabilities


def draw_normal(parameters: Tensor, noise: Tensor, lowest: float, highest: float) -> tuple[Tensor, Tensor] | None:
    """Return drawn actions and the logarithms of their densities; None where our loop does not apply.

    Args:
        parameters: ``[N, 2 n]`` float32: means, then logarithms of standard deviations.
        noise: ``[N, n]`` float32, of zero mean and unit variance.
        lowest: Bound of the logarithms.
        highest: Bound of the logarithms.

    Returns:
        ``[N, n]`` and ``[N]`` float32.
    """
    if not has_kernels_for(parameters, (torch.float32,)) or _wants_gradient(parameters) or parameters.ndim != 2:
        return None
    num_rows, num_entries = noise.shape
    is_fitting = parameters.shape == (num_rows, 2 * num_entries) and noise.dtype == torch.float32 and noise.is_cpu
    if not is_fitting:
        return None
    parameters, noise = parameters.contiguous(), noise.contiguous()
    actions = torch.empty(noise.shape, dtype=torch.float32, device=_CPU)
    log_probabilities = torch.empty(num_rows, dtype=torch.float32, device=_CPU)
    addresses = parameters.data_ptr(), noise.data_ptr(), actions.data_ptr(), log_probabilities.data_ptr()
    _kernels.draw_normal(*addresses, num_rows, num_entries, lowest, highest)
    return actions, log_probabilities


def is_traced() -> bool:
    """Tell whether PyTorch notes what is computed, to compile it: it would not see our own loops."""
    return torch.compiler.is_compiling() or bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def has_kernels_for(values: Tensor, dtypes: tuple[torch.dtype, ...] = _NUMBERS) -> bool:
    """Tell whether our loops are there, know tensors of such types, and are quicker; a tracer would not see them."""
    if _kernels is None or not values.is_cpu or values.dtype not in dtypes or is_traced():
        return False
    return values.numel() < _MUCH or torch.get_num_threads() <= _MOST_THREADS


def _wants_gradient(values: Tensor) -> bool:
    return torch.is_grad_enabled() and values.requires_grad


def _is_dense(values: Tensor) -> bool:
    """Tell whether a tensor's numbers lie one behind the other, in whatever order."""
    return values.is_contiguous() or (values.ndim == 4 and values.is_contiguous(memory_format=torch.channels_last))
