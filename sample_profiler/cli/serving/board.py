"""Owns what every tab shows: one thread looks for all of them, and each is sent what has changed for it.

What tabs are sent is made once for all that show the same, in the form in which it is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path

from sample_profiler.cli.serving.watched_runs import Looked, WatchedRuns
from sample_profiler.reports.live_page import format_compared, format_gone

__all__ = ["MOST_COMPARED", "Board"]

MOST_COMPARED = 8
_INTERVAL_S, _LONGEST_S = 2.0, 10.0
_SHORTEST_S = 0.2
_PATIENCE_S = 0.5  # with a look
_WATCH_S = 0.5  # after which it is seen that the server ends
_REST = 120  # times as long as a look took, so that neither the machine nor the runs on it notice, up to the longest
_NUM_SHOWN_AT_FIRST = 4
_PULSE = b"event: pulse\ndata:\n\n"  # by which a page knows that it is not left alone

_Key = tuple[str, ...]
"""What a tab shows: a run, or no run and those whose curves it compares."""

_Shown = dict[str, str]
"""What the sections of a page hold, by name."""


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
        self._num_begun = self._num_looks = 0
        self._is_looking = asyncio.Lock()
        self._is_new_soon = False
        self._next = asyncio.Event()
        self._tabs: Counter[str] = Counter()
        self._is_wanted = asyncio.Event()
        self._shown: dict[_Key, _Shown] = {}
        self._messages: dict[tuple[_Key, int], bytes] = {}

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
            await asyncio.sleep(_WATCH_S)
        self._wake()

    def _wake(self) -> None:
        self._is_new_soon = False
        self._next.set()
        self._next = asyncio.Event()

    def _rest_s(self, took_s: float) -> float:
        """Return how long to rest after a look: little while there are runs that nobody has seen yet."""
        if self._looked is not None and self._looked.num_unread:
            return _INTERVAL_S
        return min(_LONGEST_S, max(_INTERVAL_S, _REST * took_s))

    async def look(self) -> None:
        """Look once, and wake the tabs; whoever comes meanwhile has the next look in common."""
        num_begun = self._num_begun
        async with self._is_looking:
            if self._num_begun > num_begun:
                return  # it has begun, and ended, since this was asked for
            self._num_begun += 1
            self._is_new_soon = True
            opened = {name for name in self._tabs if name}
            # What there is already is shown if this takes long, and that somebody is there.
            waking = asyncio.get_running_loop().call_later(_PATIENCE_S, self._wake)
            try:
                self._looked = await asyncio.to_thread(self._runs.look, opened)
            finally:
                waking.cancel()
            self._shown.clear()
            self._messages.clear()
            self._num_looks += 1
        self._wake()

    async def path_of(self, run: str) -> Path | None:
        """Return the folder of a run; None: there is no such run."""
        if self._looked is None or run not in self._runs.paths:
            await self.look()
        return self._runs.paths.get(run)

    def follow_run(self, run: str) -> AsyncIterator[bytes]:
        """Yield what is shown of a run, as events: all of it, then what has changed; or that nothing has."""
        return self._follow(run, (run,))

    def follow_list(self, compared: Collection[str]) -> AsyncIterator[bytes]:
        """Yield the list of runs, and the curves of some of them on the same axes; as `follow_run` does."""
        return self._follow("", ("", *compared))

    async def _follow(self, opened: str, key: _Key) -> AsyncIterator[bytes]:
        is_first = not self._tabs  # nobody has looked for a while
        self._tabs[opened] += 1
        sent, num_looks = _Shown(), -1
        try:
            if is_first or self._looked is None or (opened and not self._looked.pages.get(opened)):
                self._is_wanted.set()
            is_next = self._is_wanted.is_set() and not self._is_looking.locked()
            if is_next or self._is_new_soon:  # else all would be sent twice within a moment
                await self._next.wait()
            while not self._is_over():
                following = self._next  # before anything is sent, which may take as long as a look does
                message = self._message(key, sent, num_looks)
                sent, num_looks = self._show(key), self._num_looks
                yield message
                await following.wait()
        finally:
            self._tabs[opened] -= 1
            self._tabs += Counter()  # leaves out who has no tab

    def _message(self, key: _Key, sent: _Shown, num_looks: int) -> bytes:
        """Return what tabs are sent that have been sent these sections after so many looks."""
        if (key, num_looks) not in self._messages:
            self._messages[key, num_looks] = _format_changes(sent, self._show(key))
        return self._messages[key, num_looks]

    def _show(self, key: _Key) -> _Shown:
        if self._looked is None:
            return {}
        if key not in self._shown:
            opened, *compared = key
            self._shown[key] = self._show_run(self._looked, opened) if opened else _show_list(self._looked, compared)
        return self._shown[key]

    def _show_run(self, looked: Looked, run: str) -> _Shown:
        if run not in self._runs.paths:
            return format_gone()
        return looked.pages.get(run, {})


def _show_list(looked: Looked, compared: Collection[str]) -> _Shown:
    chosen = [looked.summaries[name] for name in compared if name in looked.summaries]
    if not compared:  # what goes on, or was there last
        readable = [summary for summary in looked.summaries.values() if summary.verdict]
        going_on = [summary for summary in readable if summary.is_live]
        chosen = (going_on or readable)[:_NUM_SHOWN_AT_FIRST]
    return {"list": looked.list_html, "compared": format_compared(chosen[:MOST_COMPARED])}


def _format_changes(before: _Shown, now: _Shown) -> bytes:
    """Return an event with all sections by name, null for those that are as before; a pulse if all of them are.

    The policy of the pages allows no style in HTML: the script sets what elements look like. In texts and attributes a
    quotation mark is escaped, so what is replaced is markup of the report's.
    """
    if before == now:
        return _PULSE
    told = {
        name: None if before.get(name) == html else html.replace(' style="', ' data-style="')
        for name, html in now.items()
    }
    return f"data: {json.dumps(told)}\n\n".encode()
