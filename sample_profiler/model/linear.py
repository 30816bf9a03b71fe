"""Owns products of rows and weights: by oneDNN on processors where they are large, by torch's own functions elsewhere.

PyTorch gives float32 products to MKL, which leaves half of what an AMD processor can do unused; convolutions go to
oneDNN, which does not, and products can, too. oneDNN takes some 10 µs a call to get going, so small ones stay. It also
takes weights that were packed beforehand, into the order in which its kernels read them: that pays for inference, where
few rows pass weights that seldom change. ``docs/performance.md`` has the figures.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Linear", "affine", "can_pack", "multiply", "pack"]

_LEAST_WORK = 2_000_000
"""Multiplications from which oneDNN's start is worth it."""

_LEAST_WORK_PACKED = 1_000_000
"""The same, with packed weights."""

_MOST_ROWS_OF_INFERENCE = 128
"""Usual batches are smaller; layers too small for them are not packed."""

_LEAST_OUTPUTS = 32
"""Narrower outputs are no work for oneDNN's kernels, however many rows there are."""

_ROWS_TO_PACK_FOR = 16
"""Packed weights serve any number of rows; oneDNN wants to hear of a usual one."""


def _has_onednn() -> bool:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return hasattr(torch.ops.mkldnn, "_linear_pointwise") and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


_HAS_ONEDNN = _has_onednn()


def multiply(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiplies by oneDNN, as :func:`torch.nn.functional.linear` would; knows no gradients.

    Args:
        rows: ``[N, I]``, float32 or bfloat16, on the processor.
        weight: ``[O, I]``, or what :func:`pack` made of it; of the same type.
        bias: ``[O]``.

    Returns:
        ``[N, O]``.
    """
    product: Tensor = torch.ops.mkldnn._linear_pointwise.default(rows, weight, bias, "none", [], "")
    return product


def can_pack(weight: Tensor) -> bool:
    """Tells whether :func:`pack` can make something of weights."""
    return _HAS_ONEDNN and weight.is_cpu and weight.dtype in (torch.float32, torch.bfloat16)


def pack(weight: Tensor) -> Tensor:
    """Returns weights ``[O, I]`` in the order in which oneDNN reads them; only :func:`multiply` understands it."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _ROWS_TO_PACK_FOR)
    return packed


def affine(rows: Tensor, weight: Tensor, bias: Tensor | None, packed: Tensor | None = None) -> Tensor:
    """Multiplies by whatever is faster; without gradients.

    Args:
        rows: ``[N, I]``.
        weight: ``[O, I]``, of the same type.
        bias: ``[O]``.
        packed: What :func:`pack` made of the weights.
    """
    num_outputs, num_inputs = weight.shape
    work = len(rows) * num_inputs * num_outputs
    # In bfloat16 even a small product goes to oneDNN in the end; packed weights save it the way there.
    if packed is not None and (work >= _LEAST_WORK_PACKED or rows.dtype == torch.bfloat16):
        return multiply(rows, packed, bias)
    if work >= _LEAST_WORK and num_outputs >= _LEAST_OUTPUTS and can_pack(weight):
        return multiply(rows, weight, bias)
    return F.linear(rows, weight, bias)


class Linear(nn.Linear):
    """A linear layer of rows ``[N, I]`` that uses the quicker product.

    Under autocast it computes as torch's layer does: in that type, with weights that stay float32.
    """

    _packed: Tensor | None = None

    def pack(self) -> None:
        """Packs the weights for inference; after each change of them again."""
        is_large = self.weight.numel() * _MOST_ROWS_OF_INFERENCE >= _LEAST_WORK_PACKED
        if can_pack(self.weight) and (is_large or self.weight.dtype == torch.bfloat16):
            self._packed = pack(self.weight)

    def forward(self, rows: Tensor) -> Tensor:
        """Returns ``[N, O]``."""
        weight = self.weight
        if not (_HAS_ONEDNN and rows.is_cpu) or torch.compiler.is_compiling():
            return F.linear(rows, weight, self.bias)
        if not torch.is_grad_enabled():
            if self._packed is not None:
                return affine(rows.to(weight.dtype), weight, self.bias, self._packed)
        elif len(rows) * weight.numel() >= _LEAST_WORK and self.out_features >= _LEAST_OUTPUTS:
            dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else rows.dtype
            if dtype in (torch.float32, torch.bfloat16):
                return product_with_gradients(rows.to(dtype), weight, self.bias)
        return F.linear(rows, weight, self.bias)


def product_with_gradients(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiplies by oneDNN in the type of the rows, forth and back."""
    product: Tensor = _Product.apply(rows, weight, bias)  # type: ignore[no-untyped-call]
    return product


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        weight_used = weight.to(rows.dtype)
        ctx.save_for_backward(rows, weight_used)
        ctx.dtype = weight.dtype
        return multiply(rows, weight_used, None if bias is None else bias.to(rows.dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        rows, weight = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        of_rows = multiply(gradient, weight.t()) if ctx.needs_input_grad[0] else None
        if rows.shape[1] < _LEAST_OUTPUTS:
            of_weight = multiply(rows.t(), gradient.t()).t().contiguous()
        else:
            of_weight = multiply(gradient.t(), rows.t())
        of_bias = gradient.sum(0, dtype=ctx.dtype) if ctx.needs_input_grad[2] else None
        return of_rows, of_weight.to(ctx.dtype), of_bias
