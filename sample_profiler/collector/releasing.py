"""Owns a thread that opens what workers have left locked which have ended, since the caller itself may wait for it."""

from __future__ import annotations

import threading

from sample_profiler.errors import MessageError
from sample_profiler.runtime.loop.transports import Transport

__all__ = ["Releasing"]

_INTERVAL_S = 0.5


class Releasing:
    """Looks at a transport from a thread of its own, if it has locks at all.

    In a run this is for the Runner, which shares no lock with anybody. The caller of a Collector does, where messages
    to and from workers travel as signals.

    Args:
        transport: of the workers.

    Attributes:
        error: what it has met that there is no way back from; None: nothing.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.error: MessageError | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="releasing")
        if transport.has_locks:
            self._thread.start()

    def end(self) -> None:
        """End the thread."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(_INTERVAL_S):
            self._release()

    def _release(self) -> None:
        try:
            self._transport.release()
        except MessageError as error:  # other queues may still have to be opened
            self.error = self.error or error
