"""Owns the writing of videos; needs imageio, and imageio-ffmpeg for mp4."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sample_profiler.errors import VideoError

__all__ = ["VideoWriter"]

_EXTRA = "pip install 'sample_profiler[video]'"


class VideoWriter:
    """Writes frames as they come: an mp4, or a gif where there is no encoder for that.

    Args:
        stem: path of the file without its suffix.
        fps: frames per second.

    Attributes:
        path: of the video.
        num_frames: written so far.

    Raises:
        VideoError: imageio is not installed, or the file cannot be written.
    """

    def __init__(self, stem: Path, fps: float) -> None:
        try:
            imageio: Any = importlib.import_module("imageio.v2")
        except ImportError as error:
            raise VideoError(f"videos need imageio, which is not installed: {_EXTRA}") from error
        has_encoder = importlib.util.find_spec("imageio_ffmpeg") is not None
        self.path = stem.with_suffix(".mp4" if has_encoder else ".gif")
        self.num_frames = 0
        # Sizes are kept as they are: the default would scale them to multiples of 16.
        options: dict[str, Any] = {"fps": fps, "macro_block_size": 2} if has_encoder else {"duration": 1000 / fps}
        try:
            self._writer = imageio.get_writer(self.path, **options)
        except OSError as error:
            raise VideoError(f"{self.path} cannot be written: {error.strerror or error}") from error

    def add(self, frame: npt.NDArray[np.uint8]) -> None:
        """Append one frame, [height, width, 3].

        Raises:
            VideoError: the file cannot be written.
        """
        try:
            self._writer.append_data(frame)
        except OSError as error:
            raise VideoError(f"{self.path} cannot be written: {error.strerror or error}") from error
        self.num_frames += 1

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()
