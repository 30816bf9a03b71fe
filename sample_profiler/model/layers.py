"""Owns what encoders and decoders are built from: fully connected layers, activations, initial weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sample_profiler.config import ModelOptions
from sample_profiler.model.kernels.kernels import Activation, Elu, has_kernels_for, is_traced
from sample_profiler.model.kernels.linear import Linear
from sample_profiler.model.kernels.perceptrons import Stack, as_trained, pass_and_learn

__all__ = ["Mlp", "initialize_weights", "make_activation"]

_ACTIVATIONS = {"elu": Activation.ELU, "relu": Activation.RELU, "tanh": Activation.TANH}


class Mlp(nn.Sequential):
    """Fully connected layers with an activation after each; without layers, the identity."""

    def __init__(self, input_size: int, widths: Sequence[int], nonlinearity: str) -> None:
        """Make the layers.

        Args:
            input_size: Width of a row.
            widths: Of the layers.
            nonlinearity: ``elu``, ``relu`` or ``tanh``.
        """
        modules: list[nn.Module] = []
        for inputs, outputs in zip((input_size, *widths), widths, strict=False):
            modules += [Linear(inputs, outputs), make_activation(nonlinearity)]
        super().__init__(*modules)
        self._activation = _ACTIVATIONS[nonlinearity]
        # A tuple beside the modules: going through them costs inference as much as a small layer.
        self._linear = tuple(module for module in modules if isinstance(module, Linear))
        self._made = tuple(modules)

    def __getitem__(self, index: int | slice) -> nn.Module:
        """Return a layer or an activation, or several of them as a plain sequence."""
        if isinstance(index, slice):
            return nn.Sequential(*list(self)[index])
        module: nn.Module = super().__getitem__(index)
        return module

    @property
    def is_as_made(self) -> bool:
        """Whether nobody has replaced a layer since, or hooked into one: passes of ours go through none of them."""
        modules = tuple(self._modules.values())
        return modules == self._made and not any(
            module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
            for module in self._made
        )

    @property
    def linear_layers(self) -> list[tuple[Tensor, Tensor, Activation]]:
        """Weights ``[O, I]`` and bias ``[O]`` of each layer, and its activation."""
        return [(layer.weight, layer.bias, self._activation) for layer in self._linear]

    def forward(self, rows: Tensor) -> Tensor:
        """Return ``[..., O]`` for rows ``[..., I]``."""
        if not self._linear:
            return rows
        is_prepared = has_kernels_for(rows)
        for layer in self._linear:
            is_prepared = is_prepared and layer.is_prepared_for(rows)
        if not is_prepared:
            if torch.is_grad_enabled() and not is_traced() and self.is_as_made:
                stack = Stack(as_trained(self.linear_layers), [self._linear[-1].out_features])
                if (learned := pass_and_learn(rows, [stack])) is not None:
                    return learned[0]
            outputs: Tensor = super().forward(rows)  # type: ignore[no-untyped-call]
            return outputs
        for layer in self._linear:
            rows = layer.infer(rows, self._activation)
        return rows


def make_activation(nonlinearity: str, *, in_place: bool = True) -> nn.Module:
    """Make an activation function.

    Args:
        nonlinearity: ``elu``, ``relu`` or ``tanh``.
        in_place: Overwrite the input. Linear and convolutional layers do not need their output for the backward pass,
            so after them this halves the memory that activations take; elsewhere the input may still be needed.
    """
    if nonlinearity == "elu":
        return Elu(inplace=in_place)
    if nonlinearity == "relu":
        return nn.ReLU(inplace=in_place)
    return nn.Tanh()


def initialize_weights(network: nn.Module, options: ModelOptions) -> None:
    """Draw the weights of all linear and convolutional layers from torch's global generator, and zero their biases.

    Recurrent layers keep torch's initialization, which is scaled to their size.

    Args:
        network: Its layers are changed in place.
        options: ``policy_initialization`` and ``policy_init_gain``.
    """
    for layer in network.modules():
        if not isinstance(layer, nn.Linear | nn.Conv2d):
            continue
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
        if options.policy_initialization == "orthogonal":
            nn.init.orthogonal_(layer.weight, gain=options.policy_init_gain)
        elif options.policy_initialization == "xavier_uniform":
            nn.init.xavier_uniform_(layer.weight, gain=options.policy_init_gain)
