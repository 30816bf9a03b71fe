"""Owns what every tab shows: one thread looks for all of them, and each is sent what has changed for it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path

from sample_profiler.cli.serving.watched_runs import Looked, WatchedRuns
from sample_profiler.reports.live_page import format_compared, format_list

__all__ = ["MOST_COMPARED", "Board", "Shown"]

MOST_COMPARED = 8
_INTERVAL_S, _LONGEST_S = 2.0, 10.0
_SHORTEST_S = 0.2
_PULSE_S = 0.5  # after which it is seen that the server ends
_REST = 60  # times as long as a look took: neither the machine nor the runs on it notice
_NUM_SHOWN_AT_FIRST = 4

Shown = dict[str, str]
"""HTML by section."""


class Board:
    """The latest look, and who waits for the next.

    Args:
        runs: are looked at.
        is_over: tells whether tabs are to be let go.
    """

    def __init__(self, runs: WatchedRuns, is_over: Callable[[], bool]) -> None:
        self._runs = runs
        self._is_over = is_over
        self._looked: Looked | None = None
        self._num_looks = 0
        self._is_looking = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._tabs: Counter[str] = Counter()
        self._is_wanted = asyncio.Event()
        self._shown: dict[tuple[str, ...], Shown] = {}

    async def keep_looking(self) -> None:
        """Look again and again while there is a tab; runs until it is cancelled."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            began_s = time.monotonic()
            await self.look()
            took_s = time.monotonic() - began_s
            await asyncio.sleep(_SHORTEST_S)
            if self._tabs:
                with contextlib.suppress(asyncio.TimeoutError):  # unless somebody opens what is not read yet
                    await asyncio.wait_for(self._is_wanted.wait(), self._rest_s(took_s))
                self._is_wanted.set()

    async def keep_watch(self) -> None:
        """Let tabs go when the server ends; runs until then, or until it is cancelled."""
        while not self._is_over():
            await asyncio.sleep(_PULSE_S)
        async with self._changed:
            self._changed.notify_all()

    def _rest_s(self, took_s: float) -> float:
        """Return how long to rest after a look: little while there are runs that nobody has seen yet."""
        if self._looked is not None and self._looked.num_unread:
            return _INTERVAL_S
        return min(_LONGEST_S, max(_INTERVAL_S, _REST * took_s))

    async def look(self) -> None:
        """Look once, and wake the tabs."""
        async with self._is_looking:
            opened = {name for name in self._tabs if name}
            self._looked = await asyncio.to_thread(self._runs.look, opened)
            self._shown.clear()
            self._num_looks += 1
        async with self._changed:
            self._changed.notify_all()

    async def path_of(self, run: str) -> Path | None:
        """Return the folder of a run; None: there is no such run."""
        if self._looked is None or run not in self._runs.paths:
            await self.look()
        return self._runs.paths.get(run)

    def follow_run(self, run: str) -> AsyncIterator[Shown]:
        """Yield what is shown of a run: all of it, then what has changed, by section; nothing: it is as it was."""
        return self._follow(run, (run,))

    def follow_list(self, compared: Collection[str]) -> AsyncIterator[Shown]:
        """Yield the list of runs, and the curves of some of them on the same axes; as `follow_run` does."""
        return self._follow("", ("", *compared))

    async def _follow(self, opened: str, key: tuple[str, ...]) -> AsyncIterator[Shown]:
        is_first = not self._tabs  # nobody has looked for a while
        self._tabs[opened] += 1
        sent: Shown = {}
        try:
            if is_first or self._looked is None or (opened and not self._looked.pages.get(opened)):
                self._is_wanted.set()
            while not self._is_over():
                shown, num_looks = self._show(key), self._num_looks
                changed = {name: html for name, html in shown.items() if sent.get(name) != html}
                changed |= dict.fromkeys((name for name in sent if name not in shown), "")
                sent = shown
                yield changed
                await self._wait_for_look(num_looks)
        finally:
            self._tabs[opened] -= 1
            self._tabs += Counter()  # leaves out who has no tab

    async def _wait_for_look(self, num_looks: int) -> None:
        """Wait for one after so many, or for the end: tabs that woke by themselves cost more than what they show."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._num_looks > num_looks or self._is_over())

    def _show(self, key: tuple[str, ...]) -> Shown:
        if self._looked is None:
            return {}
        if key not in self._shown:
            opened, *compared = key
            self._shown[key] = self._looked.pages.get(opened, {}) if opened else self._show_list(self._looked, compared)
        return self._shown[key]

    def _show_list(self, looked: Looked, compared: Collection[str]) -> Shown:
        chosen = [looked.summaries[name] for name in compared if name in looked.summaries]
        if not compared:  # what goes on, or was there last
            readable = [summary for summary in looked.summaries.values() if summary.verdict]
            going_on = [summary for summary in readable if summary.is_live]
            chosen = (going_on or readable)[:_NUM_SHOWN_AT_FIRST]
        return {
            "list": format_list(looked.summaries.values(), looked.num_unread),
            "compared": format_compared(chosen[:MOST_COMPARED]),
        }
