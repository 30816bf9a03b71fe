"""Notices games that die while ViZDoom waits for them.

A game and the process that plays it share a lock in memory. A game that dies while it holds the lock (killed for lack
of memory, say) leaves the player waiting in the code of ViZDoom for ever, where no exception can reach it.
"""

from __future__ import annotations

import os
import select
import threading

import psutil

from sample_profiler.runtime.child import end_stuck_process

__all__ = ["GameWatch", "children_of_this_process"]

_PATIENCE_S = 4.0


def children_of_this_process() -> set[int]:
    """Returns the process numbers of this process's children."""
    return {process.pid for process in psutil.Process().children()}


class GameWatch:
    """Watches one game from a thread of its own, and ends this process if it is stuck after the game has died."""

    def __init__(self, pid: int, title: str) -> None:
        """Starts watching.

        Args:
            pid: Process number of the game, a child of this process.
            title: What the game belongs to, for the error.
        """
        self._is_over = threading.Event()
        arguments = (os.pidfd_open(pid), f"EnvError: {title}: its game (process {pid}) died and cannot be recovered")
        self._thread = threading.Thread(target=self._watch, args=arguments, daemon=True, name=f"watch game {pid}")
        self._thread.start()

    def end(self) -> None:
        """Stops watching: the game has ended, and whoever played it knows."""
        self._is_over.set()
        self._thread.join(_PATIENCE_S)

    def _watch(self, game: int, message: str) -> None:
        poll = select.poll()
        poll.register(game, select.POLLIN)
        poll.poll()
        os.close(game)
        if not self._is_over.wait(_PATIENCE_S):
            end_stuck_process(message)
