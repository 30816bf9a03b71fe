"""Owns how the server waits: for who is connected so long that who opens many and says nothing keeps nobody out."""

from __future__ import annotations

import asyncio
from collections import deque
from operator import itemgetter

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

__all__ = ["Connection", "Server"]

_MOST_OPEN = 500  # fewer than the files that a process may have open where nobody has changed that
_MOST_HEAD_BYTES = 1 << 16
_MOST_AT_ONCE = 8  # requests of one connection
_PATIENCE_S = 10.0
_TICK_TENTHS = 5  # of a second; a server has a look at the date, and whether it is to end, once in so many


class Connection(HttpToolsProtocol):  # type: ignore[misc,unused-ignore]  # of any type where uvicorn is not installed
    """A connection that is closed if a request is not whole in time, or sooner if others are waiting for its place."""

    _patience: asyncio.TimerHandle | None = None
    _num_owed = 0  # answers to requests that are whole
    _num_head_bytes = 0
    _heard_s = 0.0
    _is_dropped = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override,unused-ignore]
        """Begin to wait for a request; where there are too many, who has kept the server waiting longest goes."""
        super().connection_made(transport)
        self._unanswered: deque[RequestResponseCycle] = deque()
        self._heard_s = self.loop.time()
        self._wait_for_request()
        if len(self.connections) > _MOST_OPEN:
            others = (each for each in self.connections if isinstance(each, Connection))
            waiting = [(since_s, each) for each in others if (since_s := each._keeps_waiting_since_s()) is not None]
            _, longest = min(waiting, key=itemgetter(0))
            longest._is_dropped = True
            longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more, and have nobody go on with an answer."""
        super().connection_lost(exc)
        self._stop_waiting()
        for cycle in self._unanswered:  # uvicorn tells the latest alone
            cycle.disconnected = True
            cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Take what has come; a head without an end is none."""
        self._heard_s = self.loop.time()
        self._num_head_bytes += len(data)  # until it is found to be something else
        super().data_received(data)
        if self._num_head_bytes > _MOST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_headers_complete(self) -> None:
        """Begin to answer, or refuse one more request before earlier ones are answered: each takes memory."""
        if len(self._unanswered) >= _MOST_AT_ONCE:
            raise ValueError(f"{_MOST_AT_ONCE} requests are to be answered first")  # the parser makes it a refusal
        super().on_headers_complete()
        self._unanswered.append(self.cycle)
        self._num_head_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        super().on_body(body)
        self._num_head_bytes = 0

    def on_message_complete(self) -> None:
        """Know that the request is whole."""
        super().on_message_complete()
        self._num_owed += 1
        self._wait_for_request()

    def on_response_complete(self) -> None:
        """Know that the answer has been given, which may be before the request is whole."""
        self._unanswered.popleft()
        super().on_response_complete()
        self._num_owed -= 1
        self._wait_for_request()

    def _keeps_waiting_since_s(self) -> float | None:
        """Return since when it has owed a request, or has not read its answer; None: the server is to answer."""
        if self._is_dropped:
            return None
        if self._patience is not None:
            return self._patience.when() - _PATIENCE_S
        return self._heard_s if self.flow.write_paused or self.transport.is_closing() else None

    def _wait_for_request(self) -> None:
        if self._num_owed > 0:
            self._stop_waiting()
        elif self._patience is None and not self.transport.is_closing():
            self._patience = self.loop.call_later(_PATIENCE_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class Server(uvicorn.Server):  # type: ignore[misc,unused-ignore]
    """A server that wakes twice a second, not ten times, when nobody asks for anything: runs use the processors."""

    async def main_loop(self) -> None:
        """Wait for the end."""
        num_tenths = 0
        while not await self.on_tick(num_tenths):
            await asyncio.sleep(_TICK_TENTHS / 10)
            num_tenths += _TICK_TENTHS
