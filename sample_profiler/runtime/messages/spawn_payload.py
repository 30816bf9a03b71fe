"""Hands what a process needs to it in a file, so that whoever starts the process never waits for it.

`multiprocessing` writes it into a pipe whose other end it keeps open itself. What does not fit there waits until the
new process has imported its program, and for ever if that is killed, or stopped, before it reads.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from multiprocessing import reduction
from typing import Any

from sample_profiler.runtime.messages.channels import PipeEnd
from sample_profiler.runtime.messages.shared_memory import make_anonymous_file

__all__ = ["SpawnPayload"]


class SpawnPayload:
    """A value on its way to a process that is being spawned, which finds the value itself in its place.

    Has to be kept until the process has been started.

    Args:
        value: what pickles for a process that is being spawned; may hold ends of pipes and shared memory.
    """

    def __init__(self, value: object) -> None:
        self._value = value
        self._file = PipeEnd(make_anonymous_file())

    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[Any]]:
        """Write the value into the file, and travel as that; within the spawning of a process alone."""
        with open(self._file.fileno(), "wb", closefd=False) as file:
            reduction.ForkingPickler(file).dump(self._value)
        return _take, (reduction.DupFd(self._file.fileno()),)


def _take(descriptor: Any) -> Any:
    with open(descriptor.detach(), "rb") as file:
        file.seek(0)  # where it was written to is where it is now: both processes have one position
        return pickle.load(file)
