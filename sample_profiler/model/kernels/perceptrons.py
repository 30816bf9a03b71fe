"""Owns passes through small multilayer perceptrons on processors: all layers at once, for inference and for training.

Loops of our own (``_perceptrons.c``) where there was a compiler at installation and the layers are small: the libraries
take longer to begin with each than it takes to compute them. ``docs/performance.md`` has the figures.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from sample_profiler.model.kernels.kernels import Activation, is_traced

__all__ = ["Layers", "make_fused_mlp", "pass_and_learn"]

try:
    from sample_profiler.model.kernels import _perceptrons
    from sample_profiler.model.kernels._perceptrons import MOST_WIDTH, ROWS, WIDTH
except ImportError:  # there was no compiler
    _perceptrons = None  # type: ignore[assignment]
    MOST_WIDTH, ROWS, WIDTH = 0, 1, 1

Layers: TypeAlias = Sequence[tuple[Tensor, Tensor | None, Activation]]
"""Consecutive linear layers: weights ``[O, I]``, bias ``[O]``, and the activation behind them."""

_NUMBERS = (torch.float32, torch.bfloat16)

_MOST_THREADS = 4
"""Our loops have one thread; with more than this the libraries' are quicker where there is much to do."""

_MOST_ROWS = 256
_MOST_WORK = {torch.float32: 1 << 26, torch.bfloat16: 10_000_000}
"""Rows and multiplications up to which our loops through layers are as quick as the libraries'."""

_MOST_WORK_OF_ONE = 1 << 22
"""The same where libraries have more than `_MOST_THREADS`, by their start-up of 10 µs a layer; not measured."""

_MOST_LANES = 16
"""Numbers in the largest vector that our loops may use, where the processor has it."""

_MOST_WORK_OF_TRAINING = 1 << 24
"""Multiplications of a pass forwards up to which our loops are as quick as the libraries' in training."""

_CPU = torch.device("cpu")
"""Device of every tensor that a loop writes into, whatever default the user has set."""


def make_fused_mlp(
    layers: Layers,
) -> Callable[[Tensor], Tensor | None] | None:
    """Return a function that goes through consecutive linear layers in one pass; None where our loop does not apply.

    It knows no gradients, and keeps a copy of the weights as they are now.

    Args:
        layers: At least one: weights ``[O, I]`` float32 or bfloat16, bias ``[O]``, and the activation. Each has as many
            inputs as the one before has outputs.

    Returns:
        Turns rows ``[N, I]`` float32, on a processor and not traced, into the outputs ``[N, O]`` of the last layer,
        float32, rounded to that layer's type. Rows that do not fit one pass (usually too many) it turns into None.
    """
    weights = [weight for weight, _, _ in layers]
    if _perceptrons is None or any(weight.dtype not in _NUMBERS or not weight.is_cpu for weight in weights):
        return None
    if max(max(weight.shape) for weight in weights) > MOST_WIDTH:
        return None
    num_inputs, num_outputs = weights[0].shape[1], weights[-1].shape[0]
    most_rows = _choose_most_rows(weights)
    ours: list[Tensor] = []  # kept for as long as the function, which knows addresses alone
    described = []
    for weight, bias, activation in layers:
        our_weight, our_bias = _in_blocks(weight, bias)
        ours += [our_weight, our_bias]
        sizes = weight.shape[1], len(our_bias)
        is_bfloat16 = weight.dtype == torch.bfloat16
        described.append([our_weight.data_ptr(), our_bias.data_ptr(), *sizes, int(activation), int(is_bfloat16)])
    ours.append(torch.tensor(described, dtype=torch.int64, device=_CPU))

    def apply(rows: Tensor) -> Tensor | None:
        is_fitting = rows.dtype == torch.float32 and rows.ndim == 2 and rows.shape[1] == num_inputs
        if not is_fitting or len(rows) > most_rows or not rows.is_cpu:
            return None
        rows = rows.contiguous()
        outputs = torch.empty(len(rows), num_outputs, dtype=torch.float32, device=_CPU)
        addresses = rows.data_ptr(), ours[-1].data_ptr(), outputs.data_ptr()
        _perceptrons.fused_mlp(*addresses, len(rows), len(described), num_outputs, _MOST_LANES)
        return outputs

    return apply


def _choose_most_rows(weights: Sequence[Tensor]) -> int:
    most_rows = _MOST_ROWS
    for dtype in _NUMBERS:
        work = sum(weight.numel() for weight in weights if weight.dtype == dtype)
        most_work = _MOST_WORK[dtype]
        if torch.get_num_threads() > _MOST_THREADS:
            most_work = min(most_work, _MOST_WORK_OF_ONE)
        most_rows = min(most_rows, most_work // max(1, work))
    return most_rows


def _in_blocks(weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Copy weights ``[O, I]`` to ``[O / WIDTH, I, WIDTH]`` float32, and the bias ``[O]``, both padded with zeros."""
    num_outputs, num_inputs = weight.shape
    num_blocks = -(-num_outputs // WIDTH)
    columns = torch.zeros(num_inputs, num_blocks * WIDTH, dtype=torch.float32, device=_CPU)
    columns[:, :num_outputs] = weight.detach().t()
    our_bias = torch.zeros(num_blocks * WIDTH, dtype=torch.float32, device=_CPU)
    if bias is not None:
        our_bias[:num_outputs] = bias.detach()
    return columns.view(num_inputs, num_blocks, WIDTH).transpose(0, 1).contiguous(), our_bias


def pass_and_learn(rows: Tensor, layers: Layers) -> Tensor | None:
    """Go through consecutive linear layers in one pass that gradients go back through; None where ours does not apply.

    Args:
        rows: ``[N, I]``.
        layers: At least one, each with as many inputs as the one before has outputs.

    Returns:
        The outputs ``[N, O]`` of the last layer.
    """
    if _perceptrons is None or not torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or is_traced():
        return None
    if rows.ndim != 2 or not _is_trained_here(rows):
        return None
    work, width = 0, rows.shape[1]
    for weight, bias, _ in layers:
        if not _is_trained_here(weight) or (bias is not None and not _is_trained_here(bias)):
            return None
        if weight.shape[1] != width or max(weight.shape) > MOST_WIDTH or not weight.is_contiguous():
            return None
        work, width = work + weight.numel(), len(weight)
    if not 0 < len(rows) * work <= _MOST_WORK_OF_TRAINING:
        return None
    flat = [tensor for weight, bias, _ in layers for tensor in (weight, bias)]
    outputs: Tensor = _Pass.apply(rows, [activation for _, _, activation in layers], *flat)  # type: ignore[no-untyped-call]
    return outputs


def _is_trained_here(values: Tensor) -> bool:
    return values.is_cpu and values.dtype == torch.float32


class _Pass(torch.autograd.Function):
    """Keeps what comes out of each layer, by which activations tell their gradients."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, activations: list[Activation], *flat: Tensor | None) -> Tensor:
        rows = rows.contiguous()
        weights, biases = flat[::2], flat[1::2]
        sizes = [rows.shape[1], *(len(weight) for weight in weights if weight is not None)]
        blocks = [-(-size // WIDTH) * WIDTH for size in sizes]
        num_rows = -(-len(rows) // ROWS) * ROWS
        values = torch.empty(num_rows * sum(blocks), dtype=torch.float32, device=_CPU)
        ctx.layers = [
            (_address(weight), _address(bias), *inner, int(activation))
            for weight, bias, inner, activation in zip(
                weights, biases, itertools.pairwise(sizes), activations, strict=True
            )
        ]
        described = array("q", [number for layer in ctx.layers for number in (*layer, 0, 0)])
        addresses = rows.data_ptr(), described.buffer_info()[0], values.data_ptr()
        _perceptrons.forward(*addresses, len(rows), len(ctx.layers), _MOST_LANES)
        ctx.values, ctx.shape = values, rows.shape
        # Kept so that nobody else gets their memory, and an error where they have changed since.
        ctx.save_for_backward(*flat)
        last = values[-num_rows * blocks[-1] :].view(num_rows, blocks[-1])
        return last[: len(rows), : sizes[-1]].contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = gradients[0].contiguous()
        of_rows = torch.empty(ctx.shape, dtype=torch.float32, device=_CPU) if ctx.needs_input_grad[0] else None
        of_flat = [
            torch.empty_like(tensor) if is_needed else None
            for tensor, is_needed in zip(ctx.saved_tensors, ctx.needs_input_grad[2:], strict=True)
        ]
        wanted = zip(ctx.layers, of_flat[::2], of_flat[1::2], strict=True)
        described = array("q", [number for layer, *of_layer in wanted for number in (*layer, *map(_address, of_layer))])
        addresses = gradient.data_ptr(), _address(of_rows), described.buffer_info()[0], ctx.values.data_ptr()
        _perceptrons.backward(*addresses, ctx.shape[0], len(ctx.layers), _MOST_LANES)
        return of_rows, None, *of_flat


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
