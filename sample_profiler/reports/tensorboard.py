"""Owns a run's TensorBoard event files: `summary/{policy}/events.out.tfevents…`, one folder per policy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

__all__ = ["SummaryFile"]


class SummaryFile:
    """Writes scalars and texts of one policy, without PyTorch or TensorFlow.

    Args:
        folder: for the event file; made if missing.
        flush_interval_s: after which what was written is on disk.
    """

    def __init__(self, folder: Path, flush_interval_s: float) -> None:
        self._writer = EventFileWriter(str(folder), flush_secs=max(1, round(flush_interval_s)))

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Write values at a step.

        Args:
            values: by tag.
            step: frames trained on.
        """
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Write one value at a step."""
        self.write({tag: value}, step)

    def add_text(self, tag: str, text: str, step: int) -> None:
        """Write a text at a step; TensorBoard shows it as Markdown."""
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        tensor = TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=shape)
        metadata = create_summary_metadata(display_name="", description="")
        summary = Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=tensor)])
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        """Write what is left to disk."""
        self._writer.close()
