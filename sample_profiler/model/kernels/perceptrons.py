"""Owns passes through small multilayer perceptrons on processors: all layers at once, for inference and for training.

Loops of our own (``_perceptrons.c``) where there was a compiler at installation and the layers are small: the libraries
take longer to begin with each than it takes to compute them. ``docs/performance.md`` has the figures.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from sample_profiler.model.kernels.built import ARE_BUILT
from sample_profiler.model.kernels.kernels import Activation, is_traced

__all__ = ["Layers", "Part", "Stack", "TrainedLayer", "as_trained", "fits", "make_fused_mlp", "pass_and_learn"]

if ARE_BUILT:
    from sample_profiler.model.kernels import _perceptrons
    from sample_profiler.model.kernels._perceptrons import MOST_WIDTH, ROWS, WIDTH
else:
    _perceptrons = None  # type: ignore[assignment]
    MOST_WIDTH, ROWS, WIDTH = 0, 1, 1

Layers: TypeAlias = Sequence[tuple[Tensor, Tensor | None, Activation]]
"""Consecutive linear layers: weights ``[O, I]``, bias ``[O]``, and the activation behind them."""

Part: TypeAlias = tuple[Tensor | None, Tensor | None]
"""Some outputs of a layer: weights ``[O, I]``, without which they are the same for all rows, and bias ``[O]``."""

TrainedLayer: TypeAlias = tuple[Sequence[Part], Activation]
"""A layer, of parts whose outputs lie side by side, and the activation behind all of them."""

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

_SIZE_OF_LAYER, _SIZE_OF_PART = 4, 5
"""Numbers by which our loops know them."""

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
    num_blocks = _in_blocks_of(WIDTH, num_outputs) // WIDTH
    columns = torch.zeros(num_inputs, num_blocks * WIDTH, dtype=torch.float32, device=_CPU)
    columns[:, :num_outputs] = weight.detach().t()
    our_bias = torch.zeros(num_blocks * WIDTH, dtype=torch.float32, device=_CPU)
    if bias is not None:
        our_bias[:num_outputs] = bias.detach()
    return columns.view(num_inputs, num_blocks, WIDTH).transpose(0, 1).contiguous(), our_bias


def pass_and_learn(rows: Tensor, stacks: Sequence[Stack]) -> list[Tensor] | None:
    """Go through consecutive linear layers in one pass that gradients go back through; None where ours does not apply.

    Args:
        rows: ``[N, I]``.
        stacks: Each goes through the same rows.

    Returns:
        The outputs of each stack's last layer, ``[N, O]`` for each of its widths, one stack's behind the other's.
    """
    if _perceptrons is None or not torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or is_traced():
        return None
    if rows.ndim != 2 or not _is_trained_here(rows) or not fits(rows.shape, stacks):
        return None
    tensors = [tensor for stack in stacks for parts, _ in stack.layers for part in parts for tensor in part]
    outputs: tuple[Tensor, ...] = _Pass.apply(rows, stacks, *tensors)  # type: ignore[no-untyped-call]
    return list(outputs)


def fits(shape: Sequence[int], stacks: Sequence[Stack]) -> bool:
    """Tell whether rows of a shape ``[N, I]`` and stacks are such that our loops are as quick as the libraries'."""
    most = _MOST_WORK_OF_TRAINING if torch.get_num_threads() <= _MOST_THREADS else _MOST_WORK_OF_ONE
    return 0 < shape[0] * sum(stack.find_work(shape[1]) for stack in stacks) <= most


@dataclass(frozen=True)
class Stack:
    """Consecutive linear layers to learn through.

    Attributes:
        layers: At least one, each with as many inputs as the one before has outputs.
        widths: Pieces into which the outputs of the last layer are cut.
    """

    layers: Sequence[TrainedLayer]
    widths: Sequence[int]

    def in_one_part(self) -> list[tuple[Tensor, Tensor | None, Activation]]:
        """Return the layers for :func:`make_fused_mlp`, parts of each joined; those without weights have zeros."""
        joined = [(*_join(parts), activation) for parts, activation in self.layers]
        return [(weight, bias, activation) for weight, bias, activation in joined if weight is not None]

    def find_work(self, width: int) -> float:
        """Return the number of multiplications for one row of a width; infinite where it cannot go through here."""
        work = 0
        for parts, _ in self.layers:
            num_outputs = 0
            for weight, bias in parts:
                size = _num_outputs(weight, bias)
                for tensor, shape in ((weight, (size, width)), (bias, (size,))):
                    if tensor is not None and not _is_trained_here(tensor, shape):
                        return math.inf
                num_outputs += size
            if max(width, num_outputs) > MOST_WIDTH:
                return math.inf
            work, width = work + _in_blocks_of(WIDTH, width) * _in_blocks_of(WIDTH, num_outputs), num_outputs
        return work


def as_trained(layers: Layers) -> list[TrainedLayer]:
    """Return layers of one part each."""
    return [([(weight, bias)], activation) for weight, bias, activation in layers]


def _join(parts: Sequence[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    like = next(weight for weight, _ in parts if weight is not None)
    sizes = [_num_outputs(*part) for part in parts]
    weights = [like.new_zeros(n, like.shape[1]) if w is None else w for n, (w, _) in zip(sizes, parts, strict=True)]
    biases = [like.new_zeros(n) if b is None else b for n, (_, b) in zip(sizes, parts, strict=True)]
    return torch.cat(weights), torch.cat(biases)


def _num_outputs(weight: Tensor | None, bias: Tensor | None) -> int:
    tensor = bias if weight is None else weight
    assert tensor is not None
    return tensor.shape[0]


def _in_blocks_of(block: int, size: int) -> int:
    return -(-size // block) * block


def _is_trained_here(values: Tensor, shape: tuple[int, ...] | None = None) -> bool:
    if not values.is_cpu or values.dtype != torch.float32:
        return False
    return shape is None or (values.shape == shape and values.is_contiguous())


class _Pass(torch.autograd.Function):
    """Keeps what comes out of each layer, by which activations tell their gradients."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, stacks: Sequence[Stack], *tensors: Tensor | None) -> tuple[Tensor, ...]:
        rows = rows.contiguous()
        num_rows, num_inputs = rows.shape
        most_rows = _in_blocks_of(ROWS, num_rows)
        ctx.rows_shape, ctx.stacks, outputs = rows.shape, [], []
        addresses = iter(map(_address, tensors))
        for stack in stacks:
            layers, parts, step = array("q"), array("q"), _in_blocks_of(WIDTH, num_inputs)
            size, width = step, num_inputs
            for of_layer, activation in stack.layers:
                sizes = [_num_outputs(*part) for part in of_layer]
                for num_outputs in sizes:
                    parts.extend((num_outputs, next(addresses), next(addresses), 0, 0))
                layers.extend((width, sum(sizes), activation, len(sizes)))
                width = sum(sizes)
                step = _in_blocks_of(WIDTH, width)
                size += step
            values = torch.empty(most_rows * size, dtype=torch.float32, device=_CPU)
            described = layers.buffer_info()[0], parts.buffer_info()[0], values.data_ptr()
            _perceptrons.forward(rows.data_ptr(), *described, num_rows, len(stack.layers), _MOST_LANES)
            ctx.stacks.append((stack.widths, layers, parts, values))
            last = values[most_rows * (size - step) :].view(most_rows, step)[:num_rows, :width]
            outputs += [piece.contiguous() for piece in torch.split(last, list(stack.widths), dim=1)]
        # With an error where they have changed since.
        ctx.save_for_backward(*tensors)
        return tuple(outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        wants_rows = ctx.needs_input_grad[0]
        of_rows: Tensor | None = None
        of_tensors = [
            torch.empty_like(tensor) if is_needed else None
            for tensor, is_needed in zip(ctx.saved_tensors, ctx.needs_input_grad[2:], strict=True)
        ]
        # What is saved may come back in another place.
        addresses, pieces = iter(map(_address, ctx.saved_tensors)), iter(gradients)
        of_addresses = iter(map(_address, of_tensors))
        for widths, layers, parts, values in ctx.stacks:
            for part in range(0, len(parts), _SIZE_OF_PART):
                parts[part + 1], parts[part + 2] = next(addresses), next(addresses)
                parts[part + 3], parts[part + 4] = next(of_addresses), next(of_addresses)
            gradient = torch.cat([next(pieces) for _ in widths], dim=1)
            through = torch.empty(ctx.rows_shape, dtype=torch.float32, device=_CPU) if wants_rows else None
            described = layers.buffer_info()[0], parts.buffer_info()[0], values.data_ptr()
            sizes = ctx.rows_shape[0], len(layers) // _SIZE_OF_LAYER
            _perceptrons.backward(gradient.data_ptr(), _address(through), *described, *sizes, _MOST_LANES)
            of_rows = through if of_rows is None or through is None else of_rows.add_(through)
        return of_rows, None, *of_tensors


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
