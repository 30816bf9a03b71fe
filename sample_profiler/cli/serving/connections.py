"""Owns how the server waits: for who is connected so long that who opens many and says nothing keeps nobody out."""

from __future__ import annotations

import asyncio
from operator import itemgetter

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["Connection", "Server"]

_MOST_OPEN = 500  # fewer than the files that a process may have open where nobody has changed that
_MOST_HEAD_BYTES = 1 << 16
_PATIENCE_S = 10.0
_TICK_TENTHS = 5  # of a second; a server has a look at the date, and whether it is to end, once in so many


class Connection(HttpToolsProtocol):  # type: ignore[misc,unused-ignore]  # of any type where uvicorn is not installed
    """A connection that is closed if a request is not whole in time, or sooner if others are waiting for its place."""

    _patience: asyncio.TimerHandle | None = None
    _num_asked = 0  # requests that were whole
    _num_answered = 0
    _num_head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override,unused-ignore]
        """Begin to wait for a request; where there are too many, who has kept the server waiting longest goes."""
        super().connection_made(transport)
        self._wait_for_request()
        if len(self.connections) > _MOST_OPEN:
            others = (each for each in self.connections if isinstance(each, Connection))
            waiting = [(each._patience.when(), each) for each in others if each._patience is not None]
            _, longest = min(waiting, key=itemgetter(0))
            longest._stop_waiting()  # it is not chosen again before it is gone
            longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        super().connection_lost(exc)
        self._stop_waiting()

    def data_received(self, data: bytes) -> None:
        """Take what has come; a head without an end is none."""
        self._num_head_bytes += len(data)  # until it is found to be something else
        super().data_received(data)
        if self._num_head_bytes > _MOST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_headers_complete(self) -> None:
        """Know that what comes now is the body, or the next request."""
        super().on_headers_complete()
        self._num_head_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        super().on_body(body)
        self._num_head_bytes = 0

    def on_message_complete(self) -> None:
        """Know that the request is whole."""
        super().on_message_complete()
        self._num_asked += 1
        self._num_head_bytes = 0
        self._wait_for_request()

    def on_response_complete(self) -> None:
        """Know that the answer has been given."""
        super().on_response_complete()
        self._num_answered += 1
        self._wait_for_request()

    def _wait_for_request(self) -> None:
        if self._num_asked > self._num_answered:
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
