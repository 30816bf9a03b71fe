"""Owns the networks that turn normalized observations into one vector per step.

A vector goes through fully connected layers, an image through convolutions; anything else is flattened to a vector.
What an image is, and what convolutions go over it, is said in :mod:`sample_profiler.model.convolutions`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
from torch import Tensor, cat, nn

from sample_profiler.config import ModelOptions
from sample_profiler.errors import ConfigError
from sample_profiler.model.convolutions import (
    RESNET_BLOCKS,
    RESNET_CHANNELS,
    convolutions_of,
    find_problem_of_image,
    is_image,
)
from sample_profiler.model.kernels.kernels import Activation, to_pixels
from sample_profiler.model.layers import Mlp, make_activation
from sample_profiler.spaces import encoded_shape

__all__ = ["ConvEncoder", "ObservationEncoder", "VectorEncoder", "to_rows"]


class ObservationEncoder(nn.Module):
    """Encodes each entry of an observation by itself and puts the results side by side.

    Attributes:
        output_size: Width of the result.
    """

    def __init__(self, observation_spaces: Mapping[str, gymnasium.Space[Any]], options: ModelOptions) -> None:
        """Make one encoder per key, in the order of the keys' names.

        Raises:
            ConfigError: An image has no pixels, or its channels behind them.
        """
        super().__init__()
        self._keys = sorted(observation_spaces)
        # Not a ModuleDict: a key may have a dot in it, or the name of one of a module's methods.
        encoders = [_make_encoder(observation_spaces[key], key, options) for key in self._keys]
        self.encoders = nn.ModuleList(encoders)
        self.output_size = sum(encoder.output_size for encoder in encoders)

    def image_keys(self) -> list[str]:
        """Return the keys of what goes through convolutions."""
        encoders = zip(self._keys, self.encoders, strict=True)
        return [key for key, encoder in encoders if isinstance(encoder, ConvEncoder)]

    def linear_layers(self) -> list[tuple[Tensor, Tensor, Activation]] | None:
        """Return weights, bias and activation of each layer, if one vector is all that is encoded."""
        encoder = self.encoders[0]
        if len(self.encoders) > 1 or type(encoder) is not VectorEncoder or not encoder.layers.is_as_made:
            return None
        return encoder.layers.linear_layers

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Encode N steps.

        Args:
            observations: By key, ``[N, ...]`` float32.

        Returns:
            ``[N, output_size]``.
        """
        parts: list[Tensor] = [
            encoder(observations[key]) for key, encoder in zip(self._keys, self.encoders, strict=True)
        ]
        return parts[0] if len(parts) == 1 else cat(parts, dim=-1)


class VectorEncoder(nn.Module):
    """Fully connected layers over a flattened observation."""

    def __init__(self, input_size: int, options: ModelOptions) -> None:
        super().__init__()
        self.layers = Mlp(input_size, options.encoder_mlp_layers, options.nonlinearity)
        self.output_size = options.encoder_mlp_layers[-1] if options.encoder_mlp_layers else input_size

    def forward(self, observation: Tensor) -> Tensor:
        """Encode ``[N, ...]`` to ``[N, output_size]``."""
        encoding: Tensor = self.layers(to_rows(observation))
        return encoding


class ConvEncoder(nn.Module):
    """Convolutions over an image, then fully connected layers."""

    def __init__(self, shape: Sequence[int], options: ModelOptions) -> None:
        """Make the layers.

        Args:
            shape: Channels, height and width, each at least 1.
            options: ``encoder_conv_architecture``, ``encoder_conv_mlp_layers`` and ``nonlinearity``.
        """
        super().__init__()
        make_convolutions = _make_resnet if options.encoder_conv_architecture == "resnet_impala" else _make_convnet
        convolutions, num_features = make_convolutions(shape, options)
        mlp = Mlp(num_features, options.encoder_conv_mlp_layers, options.nonlinearity)
        # One flat sequence: each module around a module costs inference a call per step.
        self.layers = nn.Sequential(*convolutions, nn.Flatten(), *mlp)
        self.output_size = options.encoder_conv_mlp_layers[-1] if options.encoder_conv_mlp_layers else num_features

    def forward(self, image: Tensor) -> Tensor:
        """Encode ``[N, C, H, W]`` to ``[N, output_size]``."""
        encoding: Tensor = self.layers(to_pixels(image))
        return encoding


class _ResidualBlock(nn.Module):
    """Adds two convolutions of the activated input to the input."""

    def __init__(self, num_channels: int, nonlinearity: str) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            make_activation(nonlinearity, in_place=False),
            nn.Conv2d(num_channels, num_channels, kernel_size=3, padding=1),
            make_activation(nonlinearity),
            nn.Conv2d(num_channels, num_channels, kernel_size=3, padding=1),
        )

    def forward(self, image: Tensor) -> Tensor:
        change: Tensor = self.layers(image)
        return change.add_(image)


def to_rows(observation: Tensor) -> Tensor:
    """Flatten ``[N, ...]`` to ``[N, I]``; a number is a vector of one."""
    return observation.flatten(1) if observation.ndim > 1 else observation[:, None]


def _make_encoder(space: gymnasium.Space[Any], key: str, options: ModelOptions) -> VectorEncoder | ConvEncoder:
    shape = encoded_shape(space)
    if not is_image(space, options.encoder_conv_architecture):
        return VectorEncoder(math.prod(shape), options)
    if problem := find_problem_of_image(key, space, options.encoder_conv_architecture):
        raise ConfigError([problem])
    return ConvEncoder(shape, options)


def _make_convnet(shape: Sequence[int], options: ModelOptions) -> tuple[list[nn.Module], int]:
    num_channels, height, width = shape
    layers: list[nn.Module] = []
    for out_channels, kernel_size, stride, size in convolutions_of(options.encoder_conv_architecture, shape):
        layers += [nn.Conv2d(num_channels, out_channels, kernel_size, stride), make_activation(options.nonlinearity)]
        num_channels, (height, width) = out_channels, size
    return layers, num_channels * height * width


def _make_resnet(shape: Sequence[int], options: ModelOptions) -> tuple[list[nn.Module], int]:
    num_channels, height, width = shape
    layers: list[nn.Module] = []
    for out_channels in RESNET_CHANNELS:
        layers += [nn.Conv2d(num_channels, out_channels, kernel_size=3, padding=1), nn.MaxPool2d(3, 2, padding=1)]
        layers += [_ResidualBlock(out_channels, options.nonlinearity) for _ in range(RESNET_BLOCKS)]
        num_channels = out_channels
        height, width = ((size + 1) // 2 for size in (height, width))
    # What comes before is a sum, whose backward pass needs neither the sum nor its terms.
    layers.append(make_activation(options.nonlinearity))
    return layers, num_channels * height * width
