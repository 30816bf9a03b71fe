"""Owns how points are read from TensorBoard's event files while these are being written, from any place in them on.

TensorBoard's own readers begin at the start of a file each time, and add up all of its bytes in Python: too much for
somebody who wants the next point of a long run, and to go on after a while.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import IO

from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event

from sample_profiler.trackers.tracker import Point

__all__ = ["read_points"]

_MOST_BYTES = 4 << 20  # at once, but for what a single event has
_HEADER = struct.Struct("<QI")  # how many bytes the event has, and a checksum of that
_CHECKSUM_BYTES = 4  # behind it


def read_points(path: Path, start: int) -> tuple[list[Point], int]:
    """Return the next points of a file, and where what is behind them begins; there again, there are no more yet.

    Args:
        path: of the file.
        start: byte at which to begin: 0, or what an earlier call has returned.

    Raises:
        OSError: it cannot be read.
    """
    points: list[Point] = []
    end = start
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(start)
        while end - start < _MOST_BYTES and (data := _read_event(file, size - end)) is not None:
            end = file.tell()
            try:
                event = Event.FromString(data)
            except DecodeError:  # of a machine that has lost its power
                continue
            if event.summary.value:
                points.append(_to_point(event))
    return points, end


def _read_event(file: IO[bytes], num_bytes_left: int) -> bytes | None:
    """Return an event; None: it is not there, or not all of it."""
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    num_bytes, _ = _HEADER.unpack(header)
    if _HEADER.size + num_bytes + _CHECKSUM_BYTES > num_bytes_left:
        return None
    return file.read(num_bytes + _CHECKSUM_BYTES)[:num_bytes]


def _to_point(event: Event) -> Point:
    point = Point(event.step, event.wall_time)
    for value in event.summary.value:
        kind = value.WhichOneof("value")
        if kind == "simple_value":
            point.values[value.tag] = value.simple_value
        elif kind == "image":
            point.pictures[value.tag] = value.image.encoded_image_string
        elif kind == "tensor" and value.metadata.plugin_data.plugin_name == "text":
            point.texts[value.tag] = b"\n".join(value.tensor.string_val).decode(errors="replace")
    return point
