"""Opens a record file for reading and checks that it is one: sizes, offsets, counters. Nothing of it is mapped."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from sample_profiler.errors import RecordError
from sample_profiler.profiling.record import format as layout
from sample_profiler.profiling.record.process_record import Anchor

__all__ = ["Header", "LiveCounters", "OpenRecord"]

_CURE = "give the .rec file of a run that this version of sample_profiler made"
_SWAPPED_BYTE_ORDER = int.from_bytes(layout.BYTE_ORDER.to_bytes(4, "little"), "big")
_LENGTH_SIZE = 4
_MAX_METADATA = 1 << 24
_MAX_STRINGS = 1 << 20
_MAX_NODES = 1 << 16
_MAX_GAUGES = 1 << 16


class Header(NamedTuple):
    """What is written once. The fields are those of `record_format.HEADER_FIXED`."""

    magic: bytes
    version: int
    byte_order: int
    header_size: int
    slot_size: int
    num_slots: int
    num_buckets: int
    gauge_size: int
    num_gauge_slots: int
    event_size: int
    pid: int
    slots_offset: int
    gauges_offset: int
    strings_offset: int
    strings_size: int
    metadata_offset: int
    metadata_size: int
    ring_offset: int
    num_events: int
    file_size: int
    is_compiled: int
    start_monotonic_ns: int
    start_wall_ns: int
    start_boot_ns: int
    end_monotonic_ns: int
    end_wall_ns: int
    end_boot_ns: int
    process_started_ns: int

    @property
    def start_anchor(self) -> Anchor:
        """When the file was made."""
        return Anchor(self.start_monotonic_ns, self.start_wall_ns, self.start_boot_ns)

    @property
    def end_anchor(self) -> Anchor:
        """When it was closed; zeros before."""
        return Anchor(self.end_monotonic_ns, self.end_wall_ns, self.end_boot_ns)


class LiveCounters(NamedTuple):
    """What grows. The fields are those of `record_format.HEADER_LIVE`."""

    num_nodes: int
    strings_used: int
    num_gauges: int
    metadata_used: int
    events_written: int
    nodes_dropped: int
    flushed_ns: int
    is_closed: int
    num_threads: int
    thread_keys: tuple[int, ...]


class OpenRecord:
    """A record file that is open for reading; a context manager.

    Args:
        path: the file.

    Attributes:
        path: the file.
        header: what is written once, checked.

    Raises:
        RecordError: it cannot be read, or is no whole record file of this version and byte order.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.descriptor = -1
        try:
            # Not to block on a pipe of that name.
            self.descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            status = os.fstat(self.descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise self.error("is no file", "it is a folder or a device", _CURE)
            self.header = self._read_header(status.st_size)
        except OSError as error:
            self.close()
            raise self.error(
                "cannot be read", error.strerror or str(error), "check the path and its permissions"
            ) from (error)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> OpenRecord:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):  # somebody else may have closed all files of the process
                os.close(descriptor)

    def error(self, problem: str, reason: str, cure: str = _CURE) -> RecordError:
        """Return an error about this file."""
        return RecordError(f"{self.path} {problem}: {reason}; {cure}")

    def damaged(self, reason: str) -> RecordError:
        """Return an error about a file whose parts do not fit together."""
        return self.error("is damaged", reason, "leave it out, its content cannot be trusted")

    def read(self, size: int, offset: int) -> bytes:
        """Return `size` bytes.

        Raises:
            RecordError: the file has become shorter, or cannot be read.
        """
        try:
            data = os.pread(self.descriptor, size, offset)
        except (OSError, OverflowError, ValueError) as error:
            raise self.error("cannot be read", str(error), "check its file system") from error
        if len(data) != size:
            raise self.error("is truncated", f"it ends before byte {offset + size}")
        return data

    def written_s(self) -> float:
        """Return when its file system has last seen anything written into it, in seconds since 1970."""
        return os.fstat(self.descriptor).st_mtime

    def read_live(self) -> LiveCounters:
        """Return the counters as they are now.

        Raises:
            RecordError: they are larger than what they count has room for.
        """
        return self._check_live(self.read(layout.HEADER_LIVE.size, layout.HEADER_LIVE_OFFSET))

    def read_fixed(self) -> Header:
        """Return the header with the end anchors as they are now."""
        return Header._make(layout.HEADER_FIXED.unpack(self.read(layout.HEADER_FIXED.size, 0)))

    def _check_live(self, data: bytes) -> LiveCounters:
        values = layout.HEADER_LIVE.unpack(data)
        live = LiveCounters._make((*values[:9], values[9:]))
        header = self.header
        # A file with holes has room for any number, and costs nobody anything before it is read.
        limits = (
            min(header.num_slots, _MAX_NODES),
            min(header.strings_size, _MAX_STRINGS),
            min(header.num_gauge_slots, _MAX_GAUGES),
            min(header.metadata_size, _MAX_METADATA),
        )
        for name, value, limit in zip(LiveCounters._fields, values, limits, strict=False):
            if value > limit:
                raise self.damaged(f"{name} is {value}, and there is room for {limit}")
        if live.is_closed > 1 or live.events_written >= 1 << 62 or live.flushed_ns >= 1 << 62:
            raise self.damaged("its counters have values that cannot be")
        return live

    def read_metadata(self, live: LiveCounters) -> dict[str, str]:
        """Return what the process said of itself.

        Raises:
            RecordError: it is not what it should be.
        """
        data = self.read(live.metadata_used, self.header.metadata_offset)
        if not data:
            return {}
        try:
            plain = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"its metadata is no JSON: {error}") from error
        if not isinstance(plain, dict):
            raise self.damaged("its metadata is no JSON object")
        return {str(key): str(value) for key, value in plain.items()}

    def read_strings(self, live: LiveCounters) -> Mapping[int, str]:
        """Return the strings by their keys; `NO_KEY` is the empty one."""
        return _decode_strings(self.read(live.strings_used, self.header.strings_offset))

    def unknown_string(self, error: KeyError) -> RecordError:
        """Return the error for a key that no string has."""
        return self.damaged(f"it names a string at {error}, and there is none")

    def _read_header(self, size: int) -> Header:
        if not size:
            raise self.error("is empty", "there is not even a header", "it may be in the making: read it again later")
        start = os.pread(self.descriptor, layout.HEADER_FIXED.size, 0)
        if start[: len(layout.MAGIC)] != layout.MAGIC:
            if not start.strip(b"\0"):
                raise self.error("has no header", "it is all zeros", "it may be in the making: read it again later")
            raise self.error("is no record file", f"it begins with {start[:8]!r}, not {layout.MAGIC!r}")
        if len(start) < layout.HEADER_FIXED.size or size < layout.HEADER_SIZE:
            raise self.error("is truncated", f"it has {size} bytes, a header has {layout.HEADER_SIZE}")
        header = Header._make(layout.HEADER_FIXED.unpack(start))
        self._check_version(header)
        self._check_sizes(header, size)
        return header

    def _check_version(self, header: Header) -> None:
        if header.byte_order == _SWAPPED_BYTE_ORDER:
            raise self.error(
                "is from a machine of the other byte order",
                f"this one reads {sys.byteorder}-endian files only",
                "read it on a machine like the one it was made on",
            )
        if header.byte_order != layout.BYTE_ORDER:
            raise self.damaged(f"its byte order is {header.byte_order:#x}")
        if header.version != layout.VERSION:
            raise self.error(
                f"has version {header.version} of record files",
                f"this sample_profiler reads version {layout.VERSION}",
                "read it with the sample_profiler that made it",
            )

    def _check_sizes(self, header: Header, size: int) -> None:
        for name, expected in _SIZES.items():
            if getattr(header, name) != expected:
                raise self.damaged(f"its {name} is {getattr(header, name)}, that of version 1 is {expected}")
        for name, length in (
            ("slots_offset", header.num_slots * header.slot_size),
            ("gauges_offset", header.num_gauge_slots * header.gauge_size),
            ("strings_offset", header.strings_size),
            ("metadata_offset", header.metadata_size),
            ("ring_offset", header.num_events * header.event_size),
        ):
            begin = getattr(header, name)
            if begin < layout.HEADER_SIZE or begin + length > header.file_size:
                raise self.damaged(f"its {name} is {begin}, {length} bytes long, of {header.file_size}")
        if size < header.file_size:
            raise self.error("is truncated", f"it has {size} bytes of {header.file_size}")
        if header.is_compiled > 1:
            raise self.damaged(f"its is_compiled is {header.is_compiled}")


_SIZES = {
    "header_size": layout.HEADER_SIZE,
    "slot_size": layout.SLOT_SIZE,
    "num_buckets": layout.NUM_BUCKETS,
    "gauge_size": layout.GAUGE_SIZE,
    "event_size": layout.EVENT.size,
}


@functools.lru_cache(maxsize=128)
def _decode_strings(data: bytes) -> Mapping[int, str]:
    """Return strings by offset. Whoever polls a file decodes them once: there is rarely a new one."""
    strings = {layout.NO_KEY: ""}
    offset = 0
    while offset + _LENGTH_SIZE <= len(data):
        begin = offset + _LENGTH_SIZE
        end = begin + int.from_bytes(data[offset:begin], sys.byteorder)
        if end > len(data):
            break
        strings[offset] = data[begin:end].decode(errors="replace")
        offset = -(-end // _LENGTH_SIZE) * _LENGTH_SIZE
    return MappingProxyType(strings)
