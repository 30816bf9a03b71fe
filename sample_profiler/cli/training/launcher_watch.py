"""Owns the end of a rank whose launcher is gone."""

from __future__ import annotations

from sample_profiler.errors import RankError
from sample_profiler.run.observers import RunObserver
from sample_profiler.run.records.statistics import RunStatus
from sample_profiler.runtime.processes.launcher_gone import Launcher

__all__ = ["LauncherWatch"]


class LauncherWatch(RunObserver):
    """Fails the run when whoever has started it as a rank is gone.

    A failure, and no end in order: ranks of other machines go on where their launchers start them again, and for these
    this one is lost.

    Args:
        launcher: of the rank.
    """

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    def on_status(self, status: RunStatus) -> None:  # noqa: ARG002 (as observers are called)
        """Look whether it still is there.

        Raises:
            RankError: it is not.
        """
        if self._launcher.is_gone():
            raise RankError(
                f"whoever has started this rank (process {self._launcher.pid}) is gone, and nobody else would end it: "
                "start all ranks again, which goes on from the latest checkpoint"
            )
