"""The processes of a run as its Runner sees them: those that it has started, or none beside its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from sample_profiler.run.lost_components.rescue import Rescue
from sample_profiler.runtime.processes.child import SharedMemoryNames
from sample_profiler.runtime.processes.main_thread_watch import MainThreadWatch
from sample_profiler.runtime.processes.supervisor import Supervisor

__all__ = ["NoProcesses", "Processes", "StartedProcesses"]


class Processes(Protocol):
    """What the Runner does with the processes of its run."""

    @property
    def rescue(self) -> Rescue | None:
        """Who replaces them, and looks into those that hang; None: there are none."""

    def beat(self) -> None:
        """Show them that the Runner goes on, also while it waits for an answer."""

    def beating(self) -> AbstractContextManager[None]:
        """Do the same from a thread of its own, while a file system may have to be waited for."""

    def note_shared_memory(self, told: SharedMemoryNames) -> None:
        """Remember named shared memory, to be removed with the processes that use it."""


class StartedProcesses:
    """Those of a parallel run.

    Args:
        supervisor: starts them.
        watch: of this thread, which is shown signs of life, too.
        rescue: replaces them.
    """

    def __init__(self, supervisor: Supervisor, watch: MainThreadWatch, rescue: Rescue) -> None:
        self.rescue: Rescue | None = rescue
        self.note_shared_memory = supervisor.note_shared_memory
        self._supervisor = supervisor
        self._watch = watch

    def beat(self) -> None:
        """Show this thread's watch and all processes that the Runner goes on."""
        self._watch.beat()
        self._supervisor.beat()

    @contextlib.contextmanager
    def beating(self) -> Iterator[None]:
        """Do the same from a thread of its own."""
        with self._supervisor.beating(), self._watch.patient():
            yield


class NoProcesses:
    """Those of a serial run: nobody waits for signs of life, and nobody is left to remove what somebody has made."""

    rescue: Rescue | None = None

    def beat(self) -> None:
        """Nobody looks."""

    def beating(self) -> AbstractContextManager[None]:
        """Nobody looks."""
        return nullcontext()

    def note_shared_memory(self, told: SharedMemoryNames) -> None:
        """Whoever has made it removes it."""
