"""Owns the writing of videos; needs imageio, and imageio-ffmpeg for mp4."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sample_profiler.errors import VideoError
from sample_profiler.files import written_whole

__all__ = ["VideoWriter"]

_EXTRA = "pip install 'sample_profiler[video]'"


class VideoWriter:
    """Writes frames as they come: an mp4, or a gif where there is no encoder for that.

    A video of that name from before stays until this one is whole.

    Args:
        stem: path of the file without its suffix.
        fps: frames per second.

    Attributes:
        path: of the video.
        num_frames: written so far.

    Raises:
        VideoError: imageio is not installed.
    """

    def __init__(self, stem: Path, fps: float) -> None:
        try:
            self._imageio: Any = importlib.import_module("imageio.v2")
        except ImportError as error:
            raise VideoError(f"videos need imageio, which is not installed: {_EXTRA}") from error
        self._has_encoder = importlib.util.find_spec("imageio_ffmpeg") is not None
        self.path = stem.with_name(stem.name + (".mp4" if self._has_encoder else ".gif"))
        self.num_frames = 0
        self._fps = fps
        self._shape: tuple[int, ...] = ()
        self._writer: Any = None
        self._file = contextlib.ExitStack()

    def add(self, frame: object) -> None:
        """Append one frame, uint8, [height, width, 3], as large as the first.

        Raises:
            VideoError: it is something else, or the file cannot be written.
        """
        picture = _check_picture(frame)
        if self._writer is not None and picture.shape != self._shape:
            raise VideoError(f"a frame is {list(picture.shape)}, the first was {list(self._shape)}: keep one size")
        with self._discarding_if_unwritable():
            if self._writer is None:
                self._writer, self._shape = self._open(), picture.shape
            self._writer.append_data(_with_even_sides(picture) if self._has_encoder else picture)
        self.num_frames += 1

    def close(self) -> None:
        """Finish the file; without any frame there is none.

        Raises:
            VideoError: it cannot be written.
        """
        with self._discarding_if_unwritable():
            if self._writer is not None:
                self._writer.close()
            self._file.close()
        self._writer = None

    def _open(self) -> Any:
        partial = self._file.enter_context(written_whole(self.path))
        # Sizes are kept as they are: the default would scale them to multiples of 16.
        options = {"fps": self._fps, "macro_block_size": 2} if self._has_encoder else {"duration": 1000 / self._fps}
        return self._imageio.get_writer(partial, **options)

    @contextlib.contextmanager
    def _discarding_if_unwritable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._discard(error)
            raise VideoError(f"{self.path} cannot be written: {error.strerror or error}") from error

    def _discard(self, error: OSError) -> None:
        """Give up the file, so that `close` puts nothing in the place of an earlier one."""
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._writer.close()
        self._writer, self.num_frames = None, 0
        with contextlib.suppress(OSError):
            self._file.__exit__(type(error), error, error.__traceback__)


def _check_picture(frame: object) -> npt.NDArray[np.uint8]:
    """Return what an environment has rendered.

    Raises:
        VideoError: it is no picture.
    """
    given = f"of type {type(frame).__name__}"
    if isinstance(frame, np.ndarray):
        if frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3 and frame.size:
            return frame
        given = f"an array {list(frame.shape)} of {frame.dtype}"
    raise VideoError(
        f"what render() returned is {given}: for a video it has to be a NumPy array [height, width, 3] of uint8; "
        "return that for render_mode='rgb_array', or leave out --save_video"
    )


def _with_even_sides(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Repeat the last row and column where their number is odd: encoders take even ones, and would have it scaled."""
    height, width, _ = picture.shape
    if height % 2 == 0 and width % 2 == 0:
        return picture
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
