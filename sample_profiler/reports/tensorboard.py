"""Owns a run's TensorBoard event files: `summary/{policy}/events.out.tfevents…`, one folder per policy."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy.typing as npt
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.text.metadata import create_summary_metadata

from sample_profiler.reports import summary_values

__all__ = ["SummaryFile"]

logger = logging.getLogger(__name__)

_VERSION = "brain.Event:2"  # of the format
_PATIENCE_S = 5.0  # with the disk at the end
_numbers = itertools.count()


class SummaryFile:
    """Writes figures, texts, pictures and videos of one policy, without PyTorch or TensorFlow.

    Args:
        folder: for the event file; made, as the file is, when there is something to write.
        flush_interval_s: after which what was written is on disk.
    """

    def __init__(self, folder: Path, flush_interval_s: float) -> None:
        self._folder = folder
        self._flush_interval_s = max(1.0, flush_interval_s)
        self._writer: _EventFile | None = None

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Write values at a step.

        Args:
            values: by tag.
            step: frames trained on.
        """
        scalars = [Summary.Value(tag=_writable(tag), simple_value=value) for tag, value in values.items()]
        self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=scalars)))

    def add_scalar(self, tag: str, value: float, global_step: int) -> None:
        """Write one value at a step."""
        self.write({tag: value}, global_step)

    def add_histogram(self, tag: str, values: npt.ArrayLike, global_step: int, bins: int = 30) -> None:
        """Write how values are spread at a step."""
        if (histogram := summary_values.to_histogram(values, bins)) is not None:
            self._write_value(Summary.Value(tag=_writable(tag), histo=histogram), global_step)

    def add_image(self, tag: str, image: npt.ArrayLike, global_step: int, dataformats: str = "CHW") -> None:
        """Write a picture at a step."""
        with _naming(tag):
            picture = summary_values.to_png(image, dataformats)
        self._write_value(Summary.Value(tag=_writable(tag), image=picture), global_step)

    def add_video(self, tag: str, video: npt.ArrayLike, global_step: int, fps: float = 4) -> None:
        """Write videos, side by side, at a step."""
        with _naming(tag):
            pictures = summary_values.to_gif(video, fps)
        self._write_value(Summary.Value(tag=_writable(tag), image=pictures), global_step)

    def add_text(self, tag: str, text: str, global_step: int) -> None:
        """Write a text at a step; TensorBoard shows it as Markdown."""
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        tensor = TensorProto(dtype="DT_STRING", string_val=[text.encode(errors="backslashreplace")], tensor_shape=shape)
        metadata = create_summary_metadata(display_name="", description="")
        self._write_value(Summary.Value(tag=_writable(tag), metadata=metadata, tensor=tensor), global_step)

    def close(self) -> None:
        """Write what is left to disk."""
        with self._warning():
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _write_value(self, value: Summary.Value, step: int) -> None:
        self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=[value])))

    def _write(self, event: Event) -> None:
        """Write an event; without room for it a warning, and another file the next time: its thread is over then."""
        with self._warning():
            if self._writer is None:
                self._writer = _EventFile(self._folder, self._flush_interval_s)
            self._writer.add(event)

    @contextlib.contextmanager
    def _warning(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._writer = None
            logger.warning("Cannot write figures for TensorBoard to %s: %s", self._folder, error.strerror or error)


@contextlib.contextmanager
def _naming(tag: str) -> Iterator[None]:
    """Say of which tag an error is: an observer may write many."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{_writable(tag)}: {error}") from error


def _writable(tag: str) -> str:
    """Return a name, which environments may choose, without what UTF-8 has no bytes for."""
    return tag.encode(errors="backslashreplace").decode()


class _EventFile:
    """Appends events to a file of its own, in a thread: checksums of videos take long, and disks may.

    Args:
        folder: for the file; made anew whenever it is gone.
        flush_interval_s: after which events are on disk.
    """

    def __init__(self, folder: Path, flush_interval_s: float) -> None:
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self._path = folder / name
        self._flush_interval_s = flush_interval_s
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._is_closing = threading.Event()
        self._num_written = 0
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="tensorboard", daemon=True)

    def add(self, event: Event) -> None:
        """Have an event written.

        Raises:
            OSError: earlier ones could not be.
        """
        self._raise_error()
        self._events.put(event)
        if self._thread.ident is None:  # not before: what comes first is on disk at once
            try:
                self._thread.start()
            except RuntimeError as error:
                raise OSError(str(error)) from error

    def close(self) -> None:
        """Wait until all are on disk, as long as there are more of them.

        Raises:
            OSError: they are not.
        """
        self._is_closing.set()
        num_written = -1
        while self._thread.is_alive() and self._num_written > num_written:
            num_written = self._num_written
            self._thread.join(_PATIENCE_S)
        self._raise_error()
        if self._thread.is_alive():
            raise TimeoutError(f"the disk has taken nothing for {_PATIENCE_S:g} s")

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            is_over = False
            while not is_over:
                is_over = self._is_closing.is_set()  # before the rest is taken
                self._append([self._events.get() for _ in range(self._events.qsize())])
                self._is_closing.wait(self._flush_interval_s)
        except Exception as error:  # whatever it is, who writes next is told, and begins another file
            self._error = error if isinstance(error, OSError) else OSError(f"{type(error).__name__}: {error}")

    def _append(self, events: Sequence[Event]) -> None:
        if not events:
            return
        # Here, in this thread: its import takes four times as long as that of all else of this module.
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._path.parent.mkdir(parents=True, exist_ok=True)  # somebody may have removed it
        with self._path.open("ab") as file:
            writer = RecordWriter(file)
            if not file.tell():
                events = [Event(wall_time=events[0].wall_time, file_version=_VERSION), *events]
            for event in events:
                writer.write(event.SerializeToString())
                self._num_written += 1
