"""Owns products of rows and weights: by oneDNN on processors where they are large, by torch's own functions elsewhere.

In inference, small ones go to loops of our own, together with the activation behind them.

PyTorch gives float32 products to MKL, which leaves half of what an AMD processor can do unused; convolutions go to
oneDNN, which does not, and products can, too. oneDNN takes some 10 µs a call to get going, so small ones stay. It also
takes weights that were packed beforehand, into the order in which its kernels read them: that pays for inference, where
few rows pass weights that seldom change. ``docs/performance.md`` has the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sample_profiler.model.kernels.kernels import Activation, activate_in_place, is_traced
from sample_profiler.model.kernels.perceptrons import make_fused_mlp

__all__ = ["Linear", "affine", "can_multiply", "multiply", "numbers_of_rows", "pack", "room_for"]

_LEAST_WORK = 2_000_000
"""Multiplications from which oneDNN's start is worth it."""

_LEAST_WORK_PACKED = 1_000_000
"""The same, with packed weights."""

_MOST_ROWS_OF_INFERENCE = 128
"""Usual batches are smaller; layers too small for them are not packed."""

_NARROW, _FEW_ROWS = 32, 32
"""Inputs or outputs of a layer that is too narrow for the libraries' kernels, and rows that are too few for them."""

_LEAST_OUTPUTS = 32
"""Narrower outputs are no work for oneDNN's kernels, however many rows there are."""

_ROWS_TO_PACK_FOR = 16
"""Packed weights serve any number of rows; oneDNN wants to hear of a usual one."""

_SIZES_PER_DOUBLING = 8
"""Numbers of rows with packed weights from a power of two to the next; see :func:`_round_up`."""

_LEAST_ROWS = 8
"""Fewer rows take as long: it is the weights that have to be read."""


def _onednn_dtypes() -> frozenset[torch.dtype]:
    """Return the types that oneDNN multiplies here; bfloat16 only with the instructions for it."""
    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    operators = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
    if not has_onednn or not all(hasattr(torch.ops.mkldnn, operator) for operator in operators):
        return frozenset()
    has_bfloat16 = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return frozenset([torch.float32, torch.bfloat16] if has_bfloat16 else [torch.float32])


_ONEDNN_DTYPES = _onednn_dtypes()

_PREPARED = ("_is_prepared", "_packed", "_small")
"""What :meth:`Linear.pack` sets."""


def multiply(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply by oneDNN, as :func:`torch.nn.functional.linear` would; knows no gradients.

    Args:
        rows: ``[N, I]``, of a type and device for which :func:`can_multiply` is true.
        weight: ``[O, I]``, or what :func:`pack` made of it; of the same type.
        bias: ``[O]``, of the same type.

    Returns:
        ``[N, O]``.
    """
    product: Tensor = torch.ops.mkldnn._linear_pointwise.default(rows, weight, bias, "none", [], "")
    return product


def can_multiply(values: Tensor, dtype: torch.dtype | None = None) -> bool:
    """Tell whether oneDNN multiplies such values, or those in another type, on this machine."""
    return values.is_cpu and (dtype or values.dtype) in _ONEDNN_DTYPES


def pack(weight: Tensor) -> Tensor:
    """Return weights ``[O, I]`` in the order in which oneDNN reads them; only :func:`multiply` understands it."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _ROWS_TO_PACK_FOR)
    return packed


def affine(rows: Tensor, weight: Tensor, bias: Tensor | None, packed: Tensor | None = None) -> Tensor:
    """Multiply by whatever is faster; without gradients.

    Args:
        rows: ``[N, I]``.
        weight: ``[O, I]``, of the same type.
        bias: ``[O]``.
        packed: What :func:`pack` made of the weights.

    Returns:
        ``[N, O]``.
    """
    num_outputs, num_inputs = weight.shape
    work = len(rows) * num_inputs * num_outputs
    # In bfloat16 even a small product goes to oneDNN in the end; packed weights save it the way there.
    if packed is not None and (work >= _LEAST_WORK_PACKED or rows.dtype == torch.bfloat16):
        num_rows = len(rows)
        if num_more := _round_up(num_rows) - num_rows:
            rows = F.pad(rows, (0, 0, 0, num_more))
        return multiply(rows, packed, bias)[:num_rows]
    if work >= _LEAST_WORK and num_outputs >= _LEAST_OUTPUTS and can_multiply(rows):
        return multiply(rows, weight, bias)
    return F.linear(rows, weight, bias)


def _round_up(num_rows: int) -> int:
    """Return the number of rows to multiply instead: a multiple of eight, at most an eighth more where they are many.

    For each number oneDNN compiles kernels and keeps them, which is most of a MiB for a layer of 512 units. Packed
    rows are as many as there are pieces of episodes, or agents that wait: sooner or later any number there can be.
    """
    step = max(_LEAST_ROWS, (1 << num_rows.bit_length() - 1) // _SIZES_PER_DOUBLING) if num_rows else 1
    return -(-num_rows // step) * step


def numbers_of_rows(most: int) -> list[int]:
    """Return the numbers of rows that products with packed weights have, for up to so many."""
    numbers = [0]
    while numbers[-1] < most:
        numbers.append(_round_up(numbers[-1] + 1))
    return numbers[1:]


def room_for(num_rows: int) -> int:
    """Return for how many rows there is to be memory where their number is another each time: a power of two.

    Memory in which tensors of any size come and go is cut to pieces, in which large ones find no room.
    """
    return 1 << (num_rows - 1).bit_length() if num_rows else 0


class Linear(nn.Linear):
    """A linear layer that uses the quicker product; torch's in all else.

    Under autocast it computes as torch's layer does: in that type, with weights that stay float32.
    """

    _is_prepared = False
    _packed: Tensor | None = None
    _small: Callable[[Tensor], Tensor | None] | None = None

    def pack(self) -> None:
        """Prepare the weights for inference; after each change of them again."""
        self._packed = self._small = None
        self._is_prepared = self.weight.dtype in (torch.float32, torch.bfloat16)
        if self._is_prepared and min(self.weight.shape) <= _NARROW:
            self._small = make_fused_mlp([(self.weight, self.bias, Activation.NONE)])
        is_large = self.weight.numel() * _MOST_ROWS_OF_INFERENCE >= _LEAST_WORK_PACKED
        if can_multiply(self.weight) and (is_large or self.weight.dtype == torch.bfloat16):
            self._packed = pack(self.weight)

    def forward(self, rows: Tensor) -> Tensor:
        """Return ``[..., O]`` for rows ``[..., I]``."""
        weight, bias = self.weight, self.bias
        if torch.compiler.is_compiling() or not rows.is_cpu:
            return F.linear(rows, weight, bias)
        if self.is_prepared_for(rows):
            return self.infer(rows)
        is_large = rows.numel() * self.out_features >= _LEAST_WORK and self.out_features >= _LEAST_OUTPUTS
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else rows.dtype
        if not is_large or not can_multiply(rows, dtype):
            return F.linear(rows, weight, bias)
        flat: Tensor = _Product.apply(rows.reshape(-1, self.in_features).to(dtype), weight, bias)  # type: ignore[no-untyped-call]
        # A view that an activation then overwrites would cost autograd copies of its whole gradient.
        return flat if rows.ndim == 2 else flat.view(*rows.shape[:-1], self.out_features)

    def is_prepared_for(self, rows: Tensor) -> bool:
        """Tell whether :meth:`pack` has prepared the layer for such rows, and nobody wants gradients or a trace."""
        if not self._is_prepared or rows.ndim != 2 or not rows.is_cpu:
            return False
        return not (torch.is_grad_enabled() or is_traced())

    def infer(self, rows: Tensor, activation: Activation = Activation.NONE) -> Tensor:
        """Return the activated outputs ``[N, O]`` of rows ``[N, I]`` that the layer is prepared for.

        Another activation than none takes loops of our own.
        """
        rows = rows.to(self.weight.dtype)  # as autocast does where the Learner computes
        if self._small is not None and len(rows) <= _FEW_ROWS and (product := self._small(rows.float())) is not None:
            return activate_in_place(product.to(self.weight.dtype), activation)
        return activate_in_place(affine(rows, self.weight, self.bias, self._packed), activation)

    def __getstate__(self) -> dict[str, Any]:
        # Packed weights can be neither copied nor pickled, and belong to the weights of one moment.
        return {name: value for name, value in self.__dict__.items() if name not in _PREPARED}


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        weight_used = weight.to(rows.dtype)
        ctx.save_for_backward(rows, weight_used)
        ctx.dtype = weight.dtype
        return multiply(rows, weight_used, None if bias is None else bias.to(rows.dtype))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        rows, weight = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        of_rows = multiply(gradient, weight.t()) if ctx.needs_input_grad[0] else None
        of_weight = _gradient_of_weight(gradient, rows).to(ctx.dtype) if ctx.needs_input_grad[1] else None
        of_bias = gradient.sum(0, dtype=ctx.dtype) if ctx.needs_input_grad[2] else None
        return of_rows, of_weight, of_bias


def _gradient_of_weight(gradient: Tensor, rows: Tensor) -> Tensor:
    if rows.shape[1] < _LEAST_OUTPUTS:  # narrow outputs are no work for oneDNN, narrow inputs are
        return multiply(rows.t(), gradient.t()).t().contiguous()
    return multiply(gradient.t(), rows.t())
