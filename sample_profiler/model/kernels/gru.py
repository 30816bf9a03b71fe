"""Owns the arithmetic of a GRU layer on processors, over packed sequences of different lengths.

With the gates of step t (Cho et al. 2014, in the variant that torch and cuDNN compute)::

    r = σ(W_ir x + b_ir + W_hr h + b_hr)
    z = σ(W_iz x + b_iz + W_hz h + b_hz)
    n = tanh(W_in x + b_in + r (W_hn h + b_hn))
    h' = (1 - z) n + z h

Everything but the products with h is done for all steps at once, forth and back; torch's own layer gathers the
gradients of the weights step by step.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sample_profiler.model.kernels.linear import affine, can_multiply, numbers_of_rows, pack, room_for

__all__ = ["GruWeights", "PackedGruWeights", "gru_layer", "make_kernels"]


class GruWeights(NamedTuple):
    """The parameters of a layer, in the order of torch's: gates r, z, n below each other.

    Attributes:
        inputs: ``[3 H, I]``.
        hidden: ``[3 H, H]``.
        inputs_bias: ``[3 H]``.
        hidden_bias: ``[3 H]``.
    """

    inputs: Tensor
    hidden: Tensor
    inputs_bias: Tensor
    hidden_bias: Tensor

    def to(self, dtype: torch.dtype) -> GruWeights:
        """Return the same in another type."""
        return GruWeights(*(tensor.to(dtype) for tensor in self))


class PackedGruWeights(NamedTuple):
    """What :func:`sample_profiler.model.kernels.linear.pack` made of the matrices of a layer."""

    inputs: Tensor
    hidden: Tensor

    @staticmethod
    def of(weights: GruWeights) -> PackedGruWeights:
        """Pack."""
        return PackedGruWeights(pack(weights.inputs), pack(weights.hidden))


def gru_layer(
    inputs: Tensor,
    states: Tensor,
    weights: GruWeights,
    batch_sizes: Sequence[int],
    packed: PackedGruWeights | None = None,
) -> Tensor:
    """Go through sequences, longest first.

    Args:
        inputs: ``[P, I]``: the first steps of all sequences, then all second steps, and so on.
        states: ``[S, H]``, before the first step of each; of the type of the inputs.
        weights: Of the layer; float32 where inputs are bfloat16, too.
        batch_sizes: Number of sequences that have a first, second, … step.
        packed: The weights once more, for calls without gradients; of the type of the inputs. None: they are packed
            here where there is more than one step.

    Returns:
        States after each step, ``[P, H]``.
    """
    if torch.is_grad_enabled():
        outputs: Tensor = _GruLayer.apply(inputs, states, *weights, batch_sizes)  # type: ignore[no-untyped-call]
        return outputs
    weights = weights.to(inputs.dtype)
    if packed is None and len(batch_sizes) > 1:
        packed = _pack_if_possible(weights)
    return _go(inputs, states, weights, batch_sizes, packed).outputs


@torch.no_grad()
def make_kernels(weights: GruWeights, most_sequences: int) -> None:
    """Have oneDNN make the kernels for products with states and their gradients, before there is anything to compute.

    Of all kernels that :func:`gru_layer` needs these are for another number of rows each time. Made when they are first
    needed, they come to lie between the tensors of a training step, and stay there: then large tensors find no room any
    more where they were before, and the heap grows.

    Args:
        weights: Of the layer, of the type that it is to compute in.
        most_sequences: There may be more; kernels for these are made when they come.
    """
    if not can_multiply(weights.hidden):
        return
    for matrix, bias in ((weights.hidden, weights.hidden_bias), (weights.hidden.t(), None)):
        packed = pack(matrix)
        for num_rows in numbers_of_rows(most_sequences):
            affine(matrix.new_zeros(num_rows, matrix.shape[1]), matrix, bias, packed)


def _pack_if_possible(weights: GruWeights) -> PackedGruWeights | None:
    return PackedGruWeights.of(weights) if can_multiply(weights.hidden) else None


class _Steps(NamedTuple):
    """What all steps computed: the gates after their activation, W_hn h + b_hn, h and h'."""

    gates: Tensor
    hidden_candidates: Tensor
    before: Tensor | None
    outputs: Tensor


def _go(
    inputs: Tensor,
    states: Tensor,
    weights: GruWeights,
    batch_sizes: Sequence[int],
    packed: PackedGruWeights | None,
    *,
    keep: bool = False,
) -> _Steps:
    size = states.shape[1]
    gates = affine(inputs, weights.inputs, weights.inputs_bias, packed and packed.inputs)
    outputs = inputs.new_empty(len(inputs), size)
    candidates = torch.empty_like(outputs) if keep else outputs[:0]
    before = torch.empty_like(outputs) if keep else None
    begin = 0
    for num_rows in batch_sizes:
        rows = slice(begin, begin + num_rows)
        states = states[:num_rows]
        of_states = affine(states, weights.hidden, weights.hidden_bias, packed and packed.hidden)
        candidate = of_states[:, 2 * size :]
        if before is not None:
            before[rows], candidates[rows] = states, candidate
        now = gates[rows]
        now[:, : 2 * size].add_(of_states[:, : 2 * size]).sigmoid_()
        reset, update, new = torch.split(now, size, dim=1)
        new.addcmul_(reset, candidate).tanh_()
        states = torch.lerp(new, states, update, out=outputs[rows])
        begin += num_rows
    return _Steps(gates, candidates, before, outputs)


class _Workspace(threading.local):
    """Memory of passes backwards, which one leaves to the next: freed in between, others would settle in it."""

    def __init__(self) -> None:
        self._rooms: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def take(self, like: Tensor, *shapes: Sequence[int]) -> list[Tensor]:
        """Return tensors of any content, until they are taken again.

        Args:
            like: Of their type, on their device.
            shapes: Of the tensors.
        """
        sizes = [math.prod(shape) for shape in shapes]
        key = (like.dtype, like.device)
        if key not in self._rooms or len(self._rooms[key]) < sum(sizes):
            self._rooms.pop(key, None)  # not beside the new one
            self._rooms[key] = like.new_empty(sum(sizes))
        pieces = torch.split(self._rooms[key][: sum(sizes)], sizes)
        return [piece.view(*shape) for piece, shape in zip(pieces, shapes, strict=True)]


_workspace = _Workspace()


class _GruLayer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        states: Tensor,
        weight_inputs: Tensor,
        weight_hidden: Tensor,
        bias_inputs: Tensor,
        bias_hidden: Tensor,
        batch_sizes: Sequence[int],
    ) -> Tensor:
        given = GruWeights(weight_inputs, weight_hidden, bias_inputs, bias_hidden)
        weights = given.to(inputs.dtype)
        steps = _go(inputs, states, weights, batch_sizes, _pack_if_possible(weights), keep=True)
        ctx.save_for_backward(inputs, weights.inputs, weights.hidden, *steps)
        ctx.batch_sizes, ctx.dtype = batch_sizes, weight_inputs.dtype
        return steps.outputs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight_inputs, weight_hidden, gates, candidates, before, outputs = ctx.saved_tensors
        of_outputs, size = gradients[0], outputs.shape[1]
        # Gradients of what enters the activations, by way of the inputs and by way of the states; and for each step.
        scratch_shape = (3, room_for(max(ctx.batch_sizes, default=0)), size)
        of_gates, of_hidden, scratch = _workspace.take(gates, gates.shape, gates.shape, scratch_shape)
        back = weight_hidden.t()
        packed = pack(back) if can_multiply(back) else None
        of_states = scratch[0, :0]
        begin = len(outputs)
        for num_rows in reversed(ctx.batch_sizes):
            rows = slice(begin - num_rows, begin)
            begin -= num_rows
            gradient, passed, other = scratch[:, :num_rows].unbind()
            reset, update, new = torch.split(gates[rows], size, dim=1)
            of_reset, of_update, of_new = torch.split(of_gates[rows], size, dim=1)
            gradient.copy_(of_outputs[rows])
            gradient[: len(of_states)] += of_states
            torch.mul(gradient, update, out=passed)
            torch.sub(gradient, passed, out=other)
            torch.ops.aten.tanh_backward.grad_input(other, new, grad_input=of_new)
            torch.sub(before[rows], new, out=other)
            torch.ops.aten.sigmoid_backward.grad_input(gradient.mul_(other), update, grad_input=of_update)
            torch.mul(of_new, candidates[rows], out=other)
            torch.ops.aten.sigmoid_backward.grad_input(other, reset, grad_input=of_reset)
            of_hidden[rows] = of_gates[rows]
            of_hidden[rows, 2 * size :] *= reset
            of_states = passed.add_(affine(of_hidden[rows], back, None, packed))
        return (
            affine(of_gates, weight_inputs.t(), None) if ctx.needs_input_grad[0] else None,
            of_states.clone() if ctx.needs_input_grad[1] else None,
            affine(of_gates.t(), inputs.t(), None).to(ctx.dtype),
            affine(of_hidden.t(), before.t(), None).to(ctx.dtype),
            of_gates.sum(0, dtype=ctx.dtype),
            of_hidden.sum(0, dtype=ctx.dtype),
            None,
        )
