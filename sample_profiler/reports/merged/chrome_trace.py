"""Chrome traces, the format of `torch.profiler` and of our timelines, read and written piece by piece.

Neither side ever holds a whole trace: ten seconds of operators make a file of hundreds of megabytes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any

from sample_profiler.files import written_whole

__all__ = ["NS_PER_US", "ChromeTrace", "named", "to_json", "write_chrome_trace"]

NS_PER_US = 1000

_PIECE = 1 << 20
_LONGEST_EVENT = 1 << 25  # characters
_EDGE = 1 << 16  # the base of times stands before the events or behind them
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')
_BEGIN = re.compile(r'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_LINES_AT_ONCE = 4096
_COMPRESSION = 4
_MAX_TIME = 2.0**63
_FLOW_BYTES = 6  # whole numbers that every reader of JSON holds
_TOO_MANY_DIGITS = 20  # of nanoseconds that 64 bits hold


class ChromeTrace:
    """A trace as `torch.profiler` exports it.

    Args:
        path: the file.

    Attributes:
        path: the file.
        base_ns: what its times are counted from, in nanoseconds of the wall's clock; 0: they are of that clock.

    Raises:
        OSError: the file cannot be read.
        ValueError: its times are counted from nowhere.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            head = file.read(_EDGE)
            file.seek(max(0, file.seek(0, os.SEEK_END) - _EDGE))
            found = _BASE.search(file.read()) or _BASE.search(head)
        if found and len(found[1]) >= _TOO_MANY_DIGITS:
            raise self._error("the base of its times is no time")
        self.base_ns = int(found[1]) if found else 0

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the events in the order of the file.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is no trace.
        """
        decode = json.JSONDecoder().raw_decode
        with self.path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_PIECE)
            while (begin := _BEGIN.search(text)) is None:
                more = file.read(_PIECE)
                if not more:
                    raise self._error("it has no list of events")
                text = text[-_EDGE:] + more
            position = begin.end()
            while True:
                position = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]  # matches nothing, too
                if text.startswith("]", position):
                    return
                try:
                    event, position = decode(text, position)
                except RecursionError as error:
                    raise self._error("an event of it is nested too deeply") from error
                except ValueError as error:  # it goes on behind this piece
                    length = len(text) - position
                    more = file.read(max(_PIECE, length)) if length <= _LONGEST_EVENT else ""
                    if not more:
                        raise self._error(str(error)) from error
                    text, position = text[position:] + more, 0
                    continue
                self._check(event)
                yield event

    def wall_ns(self, event: Mapping[str, Any]) -> int:
        """Return when an event with a time began, on the clock of the wall."""
        return self.base_ns + round(float(event["ts"]) * NS_PER_US)

    def on_clock(self, event: Mapping[str, Any], zero_wall_ns: int, label: str) -> dict[str, Any]:
        """Return an event with its time since a moment of the wall's clock, and a flow of its own.

        Args:
            event: one of these.
            zero_wall_ns: what is 0 from now on.
            label: makes the numbers of its flows nobody else's; they are whole ones, as Perfetto wants them.
        """
        new = dict(event)
        if "ts" in event:
            # Whole numbers first: a float holds no nanoseconds since 1970.
            new["ts"] = round(float(event["ts"]) + (self.base_ns - zero_wall_ns) / NS_PER_US, 3)
        if event.get("ph") in ("s", "t", "f") and "id" in event:
            name = f"{label}:{event['id']}".encode(errors="backslashreplace")
            new["id"] = int.from_bytes(hashlib.blake2b(name, digest_size=_FLOW_BYTES).digest(), "big")
        return new

    def _check(self, event: Any) -> None:
        """Raise if an event is not as `torch.profiler` writes it, as far as anybody here looks at it."""
        if not isinstance(event, dict):
            raise self._error(f"{event!r:.80} is no event")
        if not isinstance(event.get("ph"), str) or not isinstance(event.get("name", ""), str):
            raise self._error(f"{event!r:.80} has no name or no kind")
        for number in (event.get("ts", 0), event.get("dur", 0)):
            if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) < _MAX_TIME:
                raise self._error(f"{number!r:.80} is no time")
        for owner in (event.get("pid", 0), event.get("tid", 0)):
            if not isinstance(owner, int | str):
                raise self._error(f"{owner!r:.80} is no process or thread")
        if event["ph"] == "M" and event.get("name") in ("process_name", "thread_name"):
            arguments = event.get("args")
            if "pid" not in event or not isinstance(arguments, dict) or "name" not in arguments:
                raise self._error(f"{event!r:.80} names nothing")

    def _error(self, reason: str) -> ValueError:
        return ValueError(f"{self.path} is no trace: {reason}; capture again")


def named(kind: str, pid: int, tid: int | str, name: str) -> dict[str, Any]:
    """Return the event that names a process or a track of a trace: `kind` is ``process_name`` or ``thread_name``."""
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def to_json(event: Mapping[str, Any]) -> str:
    """Return an event as a line of a trace.

    Raises:
        ValueError: a number in it is not finite.
    """
    return json.dumps(event, separators=(",", ":"), allow_nan=False)


def write_chrome_trace(output: Path, lines: Iterable[str], facts: Callable[[], Mapping[str, Any]]) -> None:
    """Write a trace, taking its events one after another.

    Args:
        output: is written; compressed if its name ends in ``.gz``.
        lines: the events as JSON.
        facts: returns what else the trace has, by key; is called after the last event.

    Raises:
        OSError: it cannot be written; a file that was there is then as before.
    """
    with written_whole(output) as partial, _open(partial) as file:
        file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        left, separator = iter(lines), ""
        while batch := list(islice(left, _LINES_AT_ONCE)):
            file.write(separator + ",\n".join(batch))
            separator = ",\n"
        file.write("\n]")
        for key, value in facts().items():
            file.write(f",{json.dumps(key)}:{to_json(value)}")
        file.write("}\n")


def _open(path: Path) -> IO[str]:
    if path.name.endswith(".gz"):
        return gzip.open(path, "wt", encoding="utf-8", compresslevel=_COMPRESSION)
    return path.open("w", encoding="utf-8")
