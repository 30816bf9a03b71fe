"""Owns what the process beside a run tells a tracker, and the few methods that each tracker has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

__all__ = ["Outcome", "Point", "TrackedRun", "Tracker", "ending_of"]

Outcome = Literal["finished", "failed", "killed"]
"""How a run has ended: in order, by a failure, or without a word."""


@dataclass(frozen=True)
class TrackedRun:
    """A run, as a tracker knows it.

    Attributes:
        name: its experiment.
        new_id: unlike any other's, for trackers that take one.
        earlier_id: which run of the tracker this one is from an earlier start on; empty: none yet.
        num_points: that the tracker has been told of it.
        config: the values of its flags.
    """

    name: str
    new_id: str
    earlier_id: str
    num_points: int
    config: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Which run of the tracker this one is, where the tracker takes what it is given."""
        return self.earlier_id or self.new_id


@dataclass(frozen=True)
class Point:
    """What a run had to say at one moment, by the names that TensorBoard has, too.

    Attributes:
        step: frames trained on.
        time_s: when that was, seconds since 1970.
        values: figures.
        texts: as Markdown.
        pictures: PNG, or GIF where they move.
    """

    step: int
    time_s: float
    values: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    pictures: dict[str, bytes] = field(default_factory=dict)


class Tracker(Protocol):
    """Where a run is shown; made of a `TrackedRun` and a folder for files. All methods may raise whatever they like.

    Attributes:
        run_id: which run of the tracker this is; the next start of the run is told.
        place: where somebody finds the run, in words.
    """

    run_id: str
    place: str

    def log(self, points: Sequence[Point]) -> None:
        """Take points, in order."""

    def add_files(self, paths: Sequence[Path]) -> None:
        """Take files as the run's results, in the place of those that it has taken before."""

    def close(self, outcome: Outcome) -> None:
        """Let go of the run, and return when all of it has arrived."""


def ending_of(picture: bytes) -> str:
    """Return what the name of a picture's file ends with."""
    return ".gif" if picture.startswith(b"GIF8") else ".png"
