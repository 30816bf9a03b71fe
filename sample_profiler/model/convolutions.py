"""Which observations are images, and what convolutions ask of them.

Imports no PyTorch: this is asked before a run begins, in a process that does without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np

from sample_profiler.spaces import ACTION_MASK_KEY

__all__ = [
    *("CONVNETS", "RESNET_BLOCKS", "RESNET_CHANNELS", "describe_too_small", "flattened_images", "is_image"),
    "least_side",
]

CONVNETS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "convnet_simple": ((32, 8, 4), (64, 4, 2), (128, 3, 2)),
    "convnet_impala": ((16, 8, 4), (32, 4, 2)),
    "convnet_atari": ((32, 8, 4), (64, 4, 2), (64, 3, 1)),
}
"""Channels, kernel size and stride of each convolution; resnet_impala, whose convolutions are padded, is not here."""

RESNET_CHANNELS = (16, 32, 32)
"""Of each stage of resnet_impala (Espeholt et al. 2018, arXiv:1802.01561, figure 3 right)."""

RESNET_BLOCKS = 2
"""Residual blocks of each stage."""


def least_side(architecture: str) -> int:
    """Return the smallest height and width that the convolutions can take.

    Args:
        architecture: `--encoder_conv_architecture`.
    """
    side = 1
    for _, kernel_size, stride in reversed(CONVNETS.get(architecture, ())):
        side = (side - 1) * stride + kernel_size
    return side


def is_image(space: gymnasium.Space[Any], architecture: str) -> bool:
    """Tell whether an observation goes through convolutions; anything else is flattened to a vector.

    What has three dimensions does. Only where it is too small for them, and of other numbers than bytes, it is taken
    for a vector: small images of bytes are more likely a mistake in the resolution or in the order of the dimensions.

    Args:
        space: Of the observation.
        architecture: `--encoder_conv_architecture`.
    """
    shape = space.shape or ()
    return len(shape) == 3 and (space.dtype == np.uint8 or min(shape[1:]) >= least_side(architecture))


def describe_too_small(key: str, space: gymnasium.Space[Any], architecture: str) -> str:
    """Return what is wrong with an image that the convolutions cannot take, or nothing.

    Args:
        key: Name of the observation.
        space: Of the observation.
        architecture: `--encoder_conv_architecture`.
    """
    least = least_side(architecture)
    if not is_image(space, architecture) or space.shape is None or min(space.shape[1:]) >= least:
        return ""
    return (
        f"observation {key!r} of shape {space.shape} is too small for --encoder_conv_architecture={architecture}, "
        f"which needs {least}x{least} pixels; an image is [channels, height, width]: enlarge it, or use "
        "--encoder_conv_architecture=resnet_impala, which takes any size, or flatten it in a wrapper to use fully "
        "connected layers"
    )


def flattened_images(observation_spaces: Mapping[str, gymnasium.Space[Any]], architecture: str) -> Iterator[str]:
    """Yield the keys of observations that have three dimensions and are taken for vectors all the same.

    Args:
        observation_spaces: By key.
        architecture: `--encoder_conv_architecture`.
    """
    for key, space in observation_spaces.items():
        if key != ACTION_MASK_KEY and len(space.shape or ()) == 3 and not is_image(space, architecture):
            yield key
