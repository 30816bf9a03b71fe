"""Owns what encoders and decoders are built from: fully connected layers, activations, initial weights."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from sample_profiler.config import ModelOptions
from sample_profiler.model.kernels import Elu
from sample_profiler.model.linear import Linear

__all__ = ["initialize_weights", "make_activation", "make_mlp"]


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


def make_mlp(input_size: int, widths: Sequence[int], nonlinearity: str) -> nn.Sequential:
    """Make fully connected layers with an activation after each; without widths, the identity."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [Linear(input_size, width), make_activation(nonlinearity)]
        input_size = width
    return nn.Sequential(*layers)


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
