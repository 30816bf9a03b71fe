"""Notices games that die while ViZDoom waits for them.

A game and the process that plays it share a lock in memory. A game that dies while it holds the lock (killed for lack
of memory, say) leaves the player waiting in the code of ViZDoom for ever, where no exception can reach it.
"""

from __future__ import annotations

import os
import select
import threading
import time
import weakref

import psutil

from sample_profiler.runtime.child import end_stuck_process

__all__ = ["GameWatch", "children_of_this_process"]

_PATIENCE_S = 4.0
_LOOK_INTERVAL_S = 0.5


def children_of_this_process() -> set[int]:
    """Return the process numbers of this process's children."""
    return {process.pid for process in psutil.Process().children()}


class GameWatch:
    """Watches one game from a thread of its own, and ends this process if it is stuck after the game has died.

    Calls of the game happen in ``with watch:``. One that goes on for seconds after the game has died never returns.
    """

    def __init__(self, pid: int, title: str, player: object) -> None:
        """Start watching.

        Args:
            pid: Process number of the game, a child of this process.
            title: What the game belongs to, for the error.
            player: Who plays; when nobody refers to it any more, there is nothing to watch.
        """
        self._call_began_s: float | None = None
        self._is_over = threading.Event()
        weakref.finalize(player, self._is_over.set)
        arguments = (os.pidfd_open(pid), f"EnvError: {title}: its game (process {pid}) died and cannot be recovered")
        self._thread = threading.Thread(target=self._watch, args=arguments, daemon=True, name=f"watch game {pid}")
        self._thread.start()

    def __enter__(self) -> None:
        self._call_began_s = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._call_began_s = None

    def end(self) -> None:
        """Stop watching: the game has ended, and whoever played it knows."""
        self._is_over.set()
        self._thread.join(_PATIENCE_S)

    def _watch(self, game: int, message: str) -> None:
        poll = select.poll()
        poll.register(game, select.POLLIN)
        poll.poll()
        os.close(game)
        died_s = time.monotonic()
        while not self._is_over.wait(_LOOK_INTERVAL_S):
            began_s = self._call_began_s
            if began_s is not None and time.monotonic() - max(began_s, died_s) > _PATIENCE_S:
                end_stuck_process(message)
