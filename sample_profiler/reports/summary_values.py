"""Owns what figures, pictures and videos are in TensorBoard's files, made of arrays without PyTorch or TensorFlow."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["to_gif", "to_histogram", "to_png"]

Pixels = npt.NDArray[np.uint8]

_AXES = "HWC"
_LAYOUTS = ("CHW", "HWC", "HW")
_CHANNELS = (1, 3, 4)


def to_histogram(values: npt.ArrayLike, num_bins: int) -> HistogramProto | None:
    """Count values in bins of one width.

    Args:
        values: of any shape; those that are not finite are left out.
        num_bins: how many bins.

    Returns:
        None: no value is left.
    """
    numbers = np.asarray(values, dtype=np.float64).ravel()
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return None
    counts, edges = np.histogram(numbers, bins=num_bins)
    return HistogramProto(
        min=numbers.min(),
        max=numbers.max(),
        num=numbers.size,
        sum=numbers.sum(),
        sum_squares=numbers @ numbers,
        bucket_limit=edges[1:].tolist(),
        bucket=counts.tolist(),
    )


def to_png(image: npt.ArrayLike, layout: str) -> Summary.Image:
    """Encode a picture.

    Args:
        image: uint8, or numbers from 0 to 1.
        layout: order of its axes: "CHW", "HWC" or "HW"; with 1, 3 or 4 channels C.

    Raises:
        ValueError: it is no such picture.
    """
    if layout not in _LAYOUTS:
        raise ValueError(f"the axes of a picture cannot be {layout!r}; allowed are {', '.join(_LAYOUTS)}")
    array = np.asarray(image)
    if array.ndim != len(layout):
        raise ValueError(f"a picture {layout} has {len(layout)} axes, and this one has the shape {array.shape}")
    array = array[..., np.newaxis] if layout == "HW" else array.transpose([layout.index(axis) for axis in _AXES])
    return _encode([_to_picture(_to_pixels(array))], "PNG", array.shape)


def to_gif(video: npt.ArrayLike, fps: float) -> Summary.Image:
    """Encode videos, side by side.

    Args:
        video: `[videos, frames, channels, height, width]`, uint8 or numbers from 0 to 1; with 1, 3 or 4 channels.
        fps: frames per second.

    Raises:
        ValueError: it is no such video.
    """
    array = np.asarray(video)
    if array.ndim != 5 or 0 in array.shape:
        raise ValueError(f"a video is [videos, frames, channels, height, width], and this one has shape {array.shape}")
    num_videos, num_frames, num_channels, height, width = array.shape
    frames = array.transpose(1, 3, 0, 4, 2).reshape(num_frames, height, num_videos * width, num_channels)
    pictures = [_to_picture(frame) for frame in _to_pixels(frames)]
    options = {"save_all": True, "append_images": pictures[1:], "duration": round(1000 / fps), "loop": 0}
    return _encode(pictures, "GIF", frames.shape[1:], **options)


def _to_pixels(array: npt.NDArray[Any]) -> Pixels:
    if array.dtype == np.uint8:
        return array
    return np.rint(255 * np.clip(np.nan_to_num(array.astype(np.float64)), 0, 1)).astype(np.uint8)


def _to_picture(pixels: Pixels) -> Image.Image:
    from PIL import Image  # only now: few runs write pictures

    num_channels = pixels.shape[-1]
    if num_channels not in _CHANNELS:
        raise ValueError(f"a picture has 1, 3 or 4 channels, and this one has {num_channels}")
    return Image.fromarray(pixels[..., 0] if num_channels == 1 else np.ascontiguousarray(pixels))


def _encode(pictures: list[Image.Image], kind: str, shape: tuple[int, ...], **options: Any) -> Summary.Image:
    with io.BytesIO() as file:
        pictures[0].save(file, format=kind, **options)
        height, width, colorspace = shape
        return Summary.Image(height=height, width=width, colorspace=colorspace, encoded_image_string=file.getvalue())
