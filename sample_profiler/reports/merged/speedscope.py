"""Call stacks (pyinstrument) of several processes as one document for https://www.speedscope.app."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sample_profiler.files import written_whole
from sample_profiler.version import __version__

__all__ = ["WeighedStack", "merge_speedscope", "read_stacks"]

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def merge_speedscope(parts: Mapping[str, Path], output: Path) -> None:
    """Write one document with a profile for each process, named after its component; a part may be empty.

    Args:
        parts: speedscope documents by component.
        output: is written.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a part is no such document.
    """
    frames: list[dict[str, Any]] = []
    indices: dict[tuple[Any, ...], int] = {}
    profiles: list[dict[str, Any]] = []
    for component, path in parts.items():
        document = _load(path)
        shared = [_index_of(frame, frames, indices) for frame in document["shared"]["frames"]]
        own = [_with_frames(profile, shared) for profile in document["profiles"]]
        for number, profile in enumerate(own):
            profile["name"] = component if len(own) == 1 else f"{component} ({number + 1})"
        profiles += own or [_empty(component)]
    merged = {
        "$schema": _SCHEMA,
        "exporter": f"sample_profiler@{__version__}",
        "name": ", ".join(parts),
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": profiles,
    }
    with written_whole(output) as partial:
        partial.write_text(json.dumps(merged, separators=(",", ":")), encoding="utf-8")


@dataclass(frozen=True)
class WeighedStack:
    """Frames that call one another, and what was seen there.

    Attributes:
        frames: the outermost first; before them stands the component.
        weight: time or bytes.
        unit: of the weight, as speedscope calls it.
    """

    frames: tuple[str, ...]
    weight: float
    unit: str


def read_stacks(path: Path) -> list[WeighedStack]:
    """Return the stacks of a document that `merge_speedscope` has written.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such document.
    """
    document = _load(path)
    try:
        names = [_name_frame(frame) for frame in document["shared"]["frames"]]
        return [
            WeighedStack((str(profile["name"]), *(names[index] for index in indices)), weight, str(profile["unit"]))
            for profile in document["profiles"]
            for indices, weight in _weighed(profile)
            if weight > 0
        ]
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{path} is no speedscope document: {error}; capture again") from error


def _name_frame(frame: Mapping[str, Any]) -> str:
    file = os.path.basename(str(frame.get("file") or ""))
    return f"{frame['name']} ({file})" if file else str(frame["name"])


def _weighed(profile: Mapping[str, Any]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield the stacks of a profile with their weights, whichever of both ways they are written down in."""
    if profile["type"] == "sampled":
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True):
            yield tuple(sample), float(weight)
        return
    stack: list[int] = []
    since = float(profile["startValue"])
    for event in profile["events"]:
        if stack:
            yield tuple(stack), float(event["at"]) - since
        since = float(event["at"])
        if event["type"] == "O":
            stack.append(int(event["frame"]))
        else:
            stack.pop()


def _load(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document["shared"]["frames"], list) or not isinstance(document["profiles"], list):
            raise TypeError("its frames and profiles are no lists")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no speedscope document: {error}; capture again") from error
    return document


def _index_of(frame: dict[str, Any], frames: list[dict[str, Any]], indices: dict[tuple[Any, ...], int]) -> int:
    identity = tuple(frame.get(field) for field in ("name", "file", "line", "col"))
    index = indices.setdefault(identity, len(frames))
    if index == len(frames):
        frames.append(frame)
    return index


def _with_frames(profile: dict[str, Any], shared: list[int]) -> dict[str, Any]:
    """Return a profile that names its frames by their places in the merged document."""
    if profile["type"] == "sampled":
        return {**profile, "samples": [[shared[index] for index in sample] for sample in profile["samples"]]}
    return {**profile, "events": [{**event, "frame": shared[event["frame"]]} for event in profile["events"]]}


def _empty(component: str) -> dict[str, Any]:
    return {"type": "evented", "name": component, "unit": "seconds", "startValue": 0, "endValue": 0, "events": []}
