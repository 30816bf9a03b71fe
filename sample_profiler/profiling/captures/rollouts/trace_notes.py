"""Owns what is asked of a Chrome trace of `torch.profiler`, and added to it: whether anything is in it, and why not."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import IO

__all__ = ["add_note", "has_activity"]

_READ_CHARACTERS = 1 << 20
_LONGEST_HEAD = 1 << 12  # of an event, up to the end of its name
_EVENT_HEAD = re.compile(r'"cat":\s*"([^"]*)",\s*"name":\s*"([^"]*)"')
_NO_ACTIVITY = "Trace"  # the category of the event that spans every trace, also an empty one


def has_activity(path: Path, ignored: Collection[str] = ()) -> bool:
    """Tell whether anything was recorded in a trace, reading no further than to the first of it.

    Args:
        path: the trace; compressed if its name ends in ``.gz``.
        ignored: names of ranges that do not count.
    """
    text = ""
    with _open_text(path, "rt") as file:
        while read := file.read(_READ_CHARACTERS):
            text = text[-_LONGEST_HEAD:] + read
            for category, name in _EVENT_HEAD.findall(text):
                if category != _NO_ACTIVITY and name not in ignored:
                    return True
    return False


def add_note(path: Path, key: str, note: str) -> None:
    """Write a note into a trace, where viewers show it and beside its metadata; for small traces.

    Args:
        path: the trace; compressed if its name ends in ``.gz``.
        key: of the metadata, a dict.
        note: the text.
    """
    with _open_text(path, "rt") as file:
        document = json.load(file)
    document.setdefault(key, {})["note"] = note
    events = document["traceEvents"]
    first_us = min((event["ts"] for event in events if "ts" in event), default=0)
    events.append({"ph": "i", "s": "g", "cat": key, "name": note, "pid": os.getpid(), "tid": 0, "ts": first_us})
    with _open_text(path, "wt") as file:
        json.dump(document, file)


def _open_text(path: Path, mode: str) -> IO[str]:
    return gzip.open(path, mode) if path.suffix == ".gz" else path.open(mode)  # type: ignore[return-value]
