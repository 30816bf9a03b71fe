"""Owns where an examination is at the moment, in memory that another process reads, also after the end of this one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sample_profiler.runtime.messages.shared_memory import SharedArrays

__all__ = ["METHODS", "Place", "Position"]

METHODS = ("", "import", "constructor", "set_training_info", "reset", "step", "begin_episodes", "close")
"""What an examination calls; nothing: none of them, it is at work itself."""


@dataclass(frozen=True)
class Place:
    """Where an examination is.

    Attributes:
        method: of the environment, one of `METHODS`.
        num_calls: of all methods so far, this one included.
        num_steps: of this environment.
        num_episodes: that this environment has begun.
    """

    method: str
    num_calls: int
    num_steps: int
    num_episodes: int

    def __str__(self) -> str:
        """Say it in words."""
        if self.method == "step":
            return f"step() number {self.num_steps:,}, in episode {self.num_episodes:,}"
        if self.method == "reset":
            return f"reset() number {self.num_episodes:,}, after {self.num_steps:,} steps"
        if self.method == "constructor":
            return "the constructor"
        if self.method == "import":
            return "the import of the program"
        return f"{self.method}()" if self.method else "the examination"


class Position:
    """A place in shared memory; pickles, to a process that is being started."""

    def __init__(self) -> None:
        self._arrays = SharedArrays({"place": ((len(Place.__dataclass_fields__),), np.int64)})
        self._arrays["place"][0] = METHODS.index("import")

    def enter(self, method: str, num_steps: int = 0, num_episodes: int = 0) -> None:
        """Note which method is called next, for the how-manieth time."""
        place = self._arrays["place"]
        place[2], place[3] = num_steps, num_episodes
        place[0] = METHODS.index(method)
        place[1] += 1

    def leave(self) -> None:
        """Note that the method has returned."""
        place = self._arrays["place"]
        place[0] = 0
        place[1] += 1

    def read(self) -> Place:
        """Return where the examination is."""
        method, *numbers = self._arrays["place"].tolist()
        return Place(METHODS[method], *numbers)
