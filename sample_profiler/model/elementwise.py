"""Owns what networks do number by number on processors: normalized bytes, the layout of images, and ELU.

Loops of our own (``_kernels.c``) where there was a compiler at installation and the tensors are such that they apply;
PyTorch's functions elsewhere, with equal results up to rounding. Together these took a third of the time of a small
network's inference; ``docs/performance.md`` has the figures.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["KERNELS", "Elu", "scale_bytes", "to_pixels"]

try:
    from sample_profiler.model import _kernels
except ImportError:  # there was no compiler
    _kernels = None  # type: ignore[assignment]

KERNELS = "PyTorch's" if _kernels is None else "compiled"
"""Whose loops there are."""

_CHANNELS = (3, 4)
"""Numbers of channels that are put side by side quicker than PyTorch does it."""


class Elu(nn.ELU):
    """The exponential linear unit (Clevert et al. 2015, arXiv:1511.07289) with alpha 1."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)

    def forward(self, values: Tensor) -> Tensor:
        """Return numbers of any shape, negative ones replaced by ``exp(x) - 1``."""
        if not _is_ours(values) or not _is_dense(values):
            return super().forward(values)
        values = values if self.inplace else values.clone()
        if torch.is_grad_enabled() and values.requires_grad:
            activated: Tensor = _EluInPlace.apply(values)  # type: ignore[no-untyped-call]
            return activated
        return _elu_in_place(values)


class _EluInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        ctx.mark_dirty(values)
        ctx.save_for_backward(_elu_in_place(values))
        return values

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (activated,) = ctx.saved_tensors
        gradient: Tensor = torch.ops.aten.elu_backward(gradients[0], 1.0, 1.0, 1.0, True, activated)
        return gradient


def _elu_in_place(values: Tensor) -> Tensor:
    _kernels.elu(values.data_ptr(), values.numel(), values.dtype == torch.bfloat16)
    return values


def scale_bytes(values: Tensor, factor: Tensor, offset: Tensor, limit: float) -> Tensor:
    """Return ``factor * x + offset`` of bytes, kept within plus and minus a limit.

    Args:
        values: ``[N, ...]`` uint8.
        factor: ``[...]`` float32.
        offset: ``[...]`` float32.
        limit: May be infinite.

    Returns:
        ``[N, ...]`` float32.
    """
    if not _is_ours(values) or not all(each.is_contiguous() for each in (values, factor, offset)):
        return torch.addcmul(offset, values.float(), factor).clamp_(-limit, limit)
    scaled = torch.empty(values.shape, dtype=torch.float32)
    addresses = values.data_ptr(), factor.data_ptr(), offset.data_ptr(), scaled.data_ptr()
    _kernels.scale_bytes(*addresses, len(values), factor.numel(), limit)
    return scaled


def to_pixels(images: Tensor) -> Tensor:
    """Return images ``[N, C, H, W]`` in the layout "channels last", in the type that autocast computes in.

    Convolutions take either layout, and are quicker with this one: they begin with a copy into it otherwise.
    """
    if torch.compiler.is_compiling() or not images.is_cpu:
        return images  # torch.compile chooses layouts itself
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else images.dtype
    num_images, num_channels, height, width = images.shape
    is_plain = images.is_contiguous() and images.dtype == torch.float32 and dtype in (torch.float32, torch.bfloat16)
    if not is_plain or num_channels not in _CHANNELS or images.requires_grad or not _is_ours(images):
        return images.to(dtype, memory_format=torch.channels_last)
    pixels = torch.empty(images.shape, dtype=dtype, memory_format=torch.channels_last)
    addresses = images.data_ptr(), pixels.data_ptr()
    _kernels.interleave(*addresses, num_images, num_channels, height * width, dtype == torch.bfloat16)
    return pixels


def _is_ours(values: Tensor) -> bool:
    """Tell whether our loops know tensors of such a type and place; what torch.compile sees has no address."""
    known = values.dtype in (torch.float32, torch.bfloat16, torch.uint8)
    return _kernels is not None and known and values.is_cpu and not torch.compiler.is_compiling()


def _is_dense(values: Tensor) -> bool:
    """Tell whether a tensor's numbers lie one behind the other, in whatever order."""
    return values.is_contiguous() or (values.ndim == 4 and values.is_contiguous(memory_format=torch.channels_last))
