"""Which observations are images, and what convolutions go over them.

Imports no PyTorch: this is asked before a run begins, in a process that does without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from sample_profiler.spaces import ACTION_MASK_KEY, encoded_shape

__all__ = [
    *("CONVNETS", "Convolution", "RESNET_BLOCKS", "RESNET_CHANNELS", "convolutions_of", "find_problem_of_image"),
    *("fitted_images", "flattened_images", "is_image", "least_side"),
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

_SMALL = (3, 1)
"""Kernel size and stride of a convolution that goes over a small image."""

_MOST_CHANNELS = 4
"""Of a picture."""


class Convolution(NamedTuple):
    """One of the convolutions over an image; pairs are of height and width.

    Attributes:
        channels: Of its output.
        kernel_size: Numbers of the input that it looks at.
        stride: From one of them to the next.
        size: Of its output.
    """

    channels: int
    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    size: tuple[int, int]


def convolutions_of(architecture: str, shape: Sequence[int]) -> list[Convolution]:
    """Return the convolutions of a convnet that go over an image.

    Where it is too small for those of the architecture, as many of them as it takes, from the first on, get a kernel of
    3 and a stride of 1, or a smaller kernel where no 3 are left. Height and width are fitted each by itself.

    Args:
        architecture: One of the ``CONVNETS``.
        shape: Channels, height and width, each at least 1.
    """
    layers = CONVNETS[architecture]
    sides = zip(*(_fit([layer[1:] for layer in layers], side) for side in shape[1:]), strict=True)
    return [
        Convolution(channels, *zip(of_height, of_width, strict=True))
        for (channels, _, _), (of_height, of_width) in zip(layers, sides, strict=True)
    ]


def _fit(layers: Sequence[tuple[int, ...]], side: int) -> list[tuple[int, int, int]]:
    """Return kernel size, stride and size of the output of each convolution along one side of an image."""
    changes = range(len(layers))
    num_changed = next((num for num in changes if side >= _least_side([*[_SMALL] * num, *layers[num:]])), len(layers))
    fitted = []
    for kernel_size, stride in (*[_SMALL] * num_changed, *layers[num_changed:]):
        kernel_size = min(kernel_size, side)
        side = (side - kernel_size) // stride + 1
        fitted.append((kernel_size, stride, side))
    return fitted


def _least_side(layers: Sequence[tuple[int, ...]]) -> int:
    side = 1
    for kernel_size, stride in reversed(layers):
        side = (side - 1) * stride + kernel_size
    return side


def least_side(architecture: str) -> int:
    """Return the smallest height and width that the convolutions take as they are.

    Args:
        architecture: `--encoder_conv_architecture`.
    """
    return _least_side([layer[1:] for layer in CONVNETS.get(architecture, ())])


def is_image(space: gymnasium.Space[Any], architecture: str) -> bool:
    """Tell whether an observation goes through convolutions; anything else is flattened to a vector.

    What has three dimensions does, however small it is if it consists of bytes. Of other numbers it is taken for a
    vector where convolutions would have to be fitted to it.

    Args:
        space: Of the observation.
        architecture: `--encoder_conv_architecture`.
    """
    shape = encoded_shape(space)
    return len(shape) == 3 and (space.dtype == np.uint8 or min(shape[1:]) >= least_side(architecture))


def find_problem_of_image(key: str, space: gymnasium.Space[Any], architecture: str) -> str:
    """Return what is wrong with an image that one cannot have meant, or nothing.

    Args:
        key: Name of the observation.
        space: Of the observation.
        architecture: `--encoder_conv_architecture`.
    """
    shape = space.shape
    if not is_image(space, architecture) or shape is None:
        return ""
    if not all(shape):
        return f"observation {key!r} of shape {shape} is an image without pixels: leave it out in a wrapper"
    if min(shape[1:]) >= least_side(architecture) or not shape[2] <= _MOST_CHANNELS < min(shape[:2]):
        return ""
    return (
        f"observation {key!r} of shape {shape} would be an image of {shape[0]} channels and {shape[1]}x{shape[2]} "
        "pixels: it seems to be [height, width, channels], and an image is [channels, height, width]: move its "
        "channels to the front in a wrapper; or flatten it there to use fully connected layers"
    )


def flattened_images(observation_spaces: Mapping[str, gymnasium.Space[Any]], architecture: str) -> Iterator[str]:
    """Yield the keys of observations that have three dimensions and are taken for vectors all the same.

    Args:
        observation_spaces: By key.
        architecture: `--encoder_conv_architecture`.
    """
    for key, space in observation_spaces.items():
        if key != ACTION_MASK_KEY and len(encoded_shape(space)) == 3 and not is_image(space, architecture):
            yield key


def fitted_images(observation_spaces: Mapping[str, gymnasium.Space[Any]], architecture: str) -> Iterator[str]:
    """Yield the keys of images that are smaller than what the convolutions take as they are.

    Args:
        observation_spaces: By key.
        architecture: `--encoder_conv_architecture`.
    """
    for key, space in observation_spaces.items():
        if is_image(space, architecture) and min((space.shape or ())[1:]) < least_side(architecture):
            yield key
