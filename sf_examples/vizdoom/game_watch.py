"""Notices games that die, or are stopped for long, while ViZDoom waits for them.

A game and the process that plays it share a lock in memory. A game that dies while it holds the lock (killed for lack
of memory, say) leaves the player waiting in the code of ViZDoom for ever, where no exception can reach it. So does one
that is stopped and never goes on.
"""

from __future__ import annotations

import math
import os
import select
import threading
import time
import weakref
from typing import NoReturn

import psutil

from sample_profiler.runtime.processes.child import end_stuck_process, report_shared_memory
from sample_profiler.runtime.processes.orphans import mapped_shared_memory

__all__ = ["GameWatch", "children_of_this_process", "end_player"]

_PATIENCE_S = 4.0
_LOOK_INTERVAL_S = 0.5
_STOP_LOOK_INTERVAL_S = 1.0
_MEMORY_OF_GAMES = "/dev/shm/ViZDoom"

_memory: set[str] = set()
"""Paths of the named shared memory of all games that this process has watched."""


def children_of_this_process() -> set[int]:
    """Return the process numbers of this process's children."""
    return {process.pid for process in psutil.Process().children()}


def end_player(message: str) -> NoReturn:
    """End this process, which is stuck, with all of its games and their shared memory.

    Args:
        message: What it waits for in vain, in one line.
    """
    end_stuck_process(message, frozenset(_memory))


class GameWatch:
    """Watches one game from a thread of its own, and ends this process if it is stuck after the game has died.

    Calls of the game happen in ``with watch:``. One that goes on for seconds after the game has died never returns, nor
    does one while the game is stopped by a signal: after some time that counts as dead, too.
    """

    def __init__(self, pid: int, title: str, player: object, hang_timeout_s: float = math.inf) -> None:
        """Start watching.

        Args:
            pid: Process number of the game, a child of this process.
            title: What the game belongs to, for the error.
            player: Who plays; when nobody refers to it any more, there is nothing to watch.
            hang_timeout_s: For how long the game may be stopped while it is waited for.
        """
        self._game = f"{title}: its game (process {pid})"
        self._hang_timeout_s = hang_timeout_s
        self._call_began_s: float | None = None
        self._is_over = threading.Event()
        weakref.finalize(player, self._is_over.set)
        names = {name for name in mapped_shared_memory([pid]) if name.startswith(_MEMORY_OF_GAMES)}
        _memory.update(names)
        report_shared_memory(names)
        arguments = (pid, os.pidfd_open(pid))
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

    def _watch(self, pid: int, descriptor: int) -> None:
        try:
            self._await_death(pid, descriptor)
        finally:
            os.close(descriptor)
        died_s = time.monotonic()
        while not self._is_over.wait(_LOOK_INTERVAL_S):
            if self._is_stuck_since(died_s):
                end_player(f"EnvError: {self._game} died and cannot be recovered")

    def _await_death(self, pid: int, descriptor: int) -> None:
        """Return when the game has died, or nobody plays it any more; do not if it is stopped for too long."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        # Not the time since it was stopped: that passes for whoever is stopped with it, as by Ctrl+Z, too.
        num_looks = 0
        while not poll.poll(_STOP_LOOK_INTERVAL_S * 1000) and not self._is_over.is_set():
            num_looks = num_looks + 1 if self._is_stuck_since(0.0) and _is_stopped(pid) else 0
            if num_looks * _STOP_LOOK_INTERVAL_S > self._hang_timeout_s:
                end_player(
                    f"EnvError: {self._game} has been stopped by a signal for {self._hang_timeout_s:g} s "
                    "(--hang_timeout), and counts as dead"
                )

    def _is_stuck_since(self, moment_s: float) -> bool:
        """Tell whether a call of the game has gone on for seconds since a moment."""
        began_s = self._call_began_s
        return began_s is not None and time.monotonic() - max(began_s, moment_s) > _PATIENCE_S


def _is_stopped(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False
