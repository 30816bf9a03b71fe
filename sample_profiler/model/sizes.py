"""How many weights a network has, from its options and the environment's spaces, without making it.

Imports no PyTorch: this is asked before a run begins, in a process that does without, and of networks that no machine
could hold. The tests compare it with networks that are made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
from gymnasium import spaces

from sample_profiler.config import ModelOptions
from sample_profiler.model.convolutions import RESNET_BLOCKS, RESNET_CHANNELS, convolutions_of, is_image
from sample_profiler.model.registry import ModelParts
from sample_profiler.spaces import action_parts, encoded_shape, part_width

__all__ = ["num_weights"]

_KERNEL_SIZE = 3 * 3  # of all convolutions of the residual network


class _Part(NamedTuple):
    num_weights: int
    output_size: int


_UNKNOWN = _Part(0, 1)
"""Counts for a part of the user's own: it has some weights, and some width."""


def num_weights(
    options: ModelOptions,
    observation_spaces: Mapping[str, gymnasium.Space[Any]],
    action_space: gymnasium.Space[Any],
    parts: ModelParts | None = None,
) -> int:
    """Count the weights and biases that `make_actor_critic` would make.

    Args:
        options: of the network.
        observation_spaces: of what the policy sees, by key, without an action mask.
        action_space: of one agent.
        parts: of the user's own. With them the count is a lower bound: what they have is not known.
    """
    if parts is not None and parts.actor_critic is not None:
        return 0
    trunk = _trunk(options, observation_spaces, parts or ModelParts())
    num_trunks = 1 if options.actor_critic_share_weights else 2
    action_head = sum(_action_head(part, trunk.output_size, options) for part in action_parts(action_space))
    return num_trunks * trunk.num_weights + action_head + _linear(trunk.output_size, 1)


def _trunk(options: ModelOptions, observation_spaces: Mapping[str, gymnasium.Space[Any]], parts: ModelParts) -> _Part:
    encoder, core = _UNKNOWN, _UNKNOWN
    if parts.encoder is None:
        encoders = [_encoder(space, options) for space in observation_spaces.values()]
        encoder = _Part(sum(each.num_weights for each in encoders), sum(each.output_size for each in encoders))
    if parts.core is None or not options.use_rnn:
        core = _core(encoder.output_size, options)
    decoder = _UNKNOWN if parts.decoder else _mlp(core.output_size, options.decoder_mlp_layers)
    return _Part(encoder.num_weights + core.num_weights + decoder.num_weights, decoder.output_size)


def _encoder(space: gymnasium.Space[Any], options: ModelOptions) -> _Part:
    shape = encoded_shape(space)
    if not is_image(space, options.encoder_conv_architecture):
        return _mlp(math.prod(shape), options.encoder_mlp_layers)
    is_resnet = options.encoder_conv_architecture == "resnet_impala"
    convolutions = _resnet(shape) if is_resnet else _convnet(shape, options.encoder_conv_architecture)
    mlp = _mlp(convolutions.output_size, options.encoder_conv_mlp_layers)
    return _Part(convolutions.num_weights + mlp.num_weights, mlp.output_size)


def _convnet(shape: Sequence[int], architecture: str) -> _Part:
    num_channels, height, width = shape
    num = 0
    for out_channels, kernel_size, _, size in convolutions_of(architecture, shape):
        num += _convolution(num_channels, out_channels, math.prod(kernel_size))
        num_channels, (height, width) = out_channels, size
    return _Part(num, num_channels * height * width)


def _resnet(shape: Sequence[int]) -> _Part:
    num_channels, height, width = shape
    num = 0
    for out_channels in RESNET_CHANNELS:
        num += _convolution(num_channels, out_channels, _KERNEL_SIZE)
        num += RESNET_BLOCKS * 2 * _convolution(out_channels, out_channels, _KERNEL_SIZE)
        num_channels = out_channels
        height, width = ((size + 1) // 2 for size in (height, width))
    return _Part(num, num_channels * height * width)


def _core(input_size: int, options: ModelOptions) -> _Part:
    if not options.use_rnn:
        return _Part(0, input_size)
    num_gates, size = (4 if options.rnn_type == "lstm" else 3), options.rnn_size
    inputs = [input_size] + [size] * (options.rnn_num_layers - 1)
    # Of each gate: weights of inputs and of states, and a bias for both.
    return _Part(sum(num_gates * size * (each + size + 2) for each in inputs), size)


def _mlp(input_size: int, widths: Sequence[int]) -> _Part:
    num = 0
    for width in widths:
        num += _linear(input_size, width)
        input_size = width
    return _Part(num, input_size)


def _action_head(part: spaces.Discrete | spaces.Box, input_size: int, options: ModelOptions) -> int:
    if isinstance(part, spaces.Discrete):
        return _linear(input_size, int(part.n))
    size = part_width(part)
    # The standard deviation is an output, or a weight of its own for each number of the action.
    return _linear(input_size, 2 * size) if options.adaptive_stddev else _linear(input_size, size) + size


def _linear(input_size: int, output_size: int) -> int:
    return (input_size + 1) * output_size


def _convolution(in_channels: int, out_channels: int, kernel_size: int) -> int:
    return (in_channels * kernel_size + 1) * out_channels
