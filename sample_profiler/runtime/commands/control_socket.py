"""Owns the socket over which other programs of the same user talk to a running run: one JSON object a line, each way.

It is looked at, never waited for: a client that sends nonsense, stops reading or goes away costs the run nothing.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sample_profiler.errors import CaptureError

__all__ = ["ControlClient", "ControlSocket", "foreign_answer"]

_MAX_REQUEST_BYTES = 1 << 16
_MAX_UNREAD_BYTES = 1 << 20
_MAX_CLIENTS = 16
_CREDENTIALS = struct.Struct("3i")  # of the process at the other end: its number, user and group
_ROOT = 0

Handle = Callable[[dict[str, Any]], dict[str, Any]]
"""Answers a request; what it raises becomes ``{"error": …}``."""


@contextlib.contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """Give a socket a path that fits into the 108 bytes of an address, however long the one of its folder is."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)


class _Client:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._received = b""
        self._unsent = b""

    def serve(self, handle: Handle) -> bool:
        """Answer what came; return whether the client is still there."""
        try:
            with contextlib.suppress(BlockingIOError):
                data = self._connection.recv(_MAX_REQUEST_BYTES)
                if not data:
                    return False
                self._received += data
            *lines, self._received = self._received.split(b"\n")
            for line in lines:
                self._unsent += json.dumps(_answer(line, handle), default=str).encode() + b"\n"
            with contextlib.suppress(BlockingIOError):
                self._unsent = self._unsent[self._connection.send(self._unsent) :] if self._unsent else b""
        except OSError:
            return False
        return len(self._received) <= _MAX_REQUEST_BYTES and len(self._unsent) <= _MAX_UNREAD_BYTES

    def close(self) -> None:
        self._connection.close()


def _answer(line: bytes, handle: Handle) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return {"error": "a request is one JSON object on a line"}
    if not isinstance(request, dict):
        return {"error": "a request is one JSON object on a line"}
    try:
        return handle(request)
    except Exception as error:  # whatever a client asks for, the run goes on
        return {"error": str(error) or type(error).__name__}


class ControlSocket:
    """The run's side. Only the same user can connect.

    Whoever makes one must have the run's folder for itself: a socket that is there already is one of a dead run, and
    is replaced.

    Args:
        path: where the socket is made; its folder is made if need be.
        handle: answers requests, within `poll`.

    Raises:
        OSError: there can be no socket there.
    """

    def __init__(self, path: Path, handle: Handle) -> None:
        self._path = path
        self._handle = handle
        self._clients: list[_Client] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            before = os.umask(0o177)  # the socket is private from its first moment
            try:
                with _short_path(path) as address:
                    self._listener.bind(address)
            finally:
                os.umask(before)
            self._listener.listen(_MAX_CLIENTS)
            self._listener.setblocking(False)
        except OSError:
            self._listener.close()
            raise

    def poll(self) -> None:
        """Take in new clients and answer what all have asked for; never waits."""
        with contextlib.suppress(OSError):  # nobody there, or no descriptor left for them
            while len(self._clients) < _MAX_CLIENTS:
                self._clients.append(_Client(self._listener.accept()[0]))
        for client in list(self._clients):
            if not client.serve(self._handle):
                client.close()
                self._clients.remove(client)

    def close(self) -> None:
        """Disconnect everybody and remove the socket."""
        for client in self._clients:
            client.close()
        self._clients.clear()
        self._listener.close()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def foreign_answer(answer: object) -> CaptureError:
    """Return the error for what comes in the place of an answer, and is none of a run's."""
    return CaptureError(f"{answer!r:.200} is no answer of a run: does another program listen there?")


def _peer_user(connection: socket.socket) -> int:
    """Return the user who has begun to listen at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return int(user)


class ControlClient:
    """The other side. It talks to runs of its own user, and of root, who can do anything anyway.

    Whoever could answer for a run would say which files are read, and deleted, with the rights of the client.

    Args:
        path: of the run's socket.
        timeout_s: for the connection and for each answer.

    Raises:
        OSError: nobody listens there.
        PermissionError: it is another user who does.
    """

    def __init__(self, path: Path, timeout_s: float = 30.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout_s)
            with _short_path(path) as address:
                self._socket.connect(address)
            if _peer_user(self._socket) not in (os.getuid(), _ROOT):
                raise PermissionError(errno.EPERM, "another user listens there")
        except OSError:
            self._socket.close()
            raise
        self._lines = self._socket.makefile("rb")

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer.

        Raises:
            CaptureError: what comes is no answer.
            OSError: the run is gone, or does not answer in time.
        """
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        line = self._lines.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the run has ended")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise foreign_answer(line)
        return answer

    def close(self) -> None:
        """Disconnect."""
        self._lines.close()
        self._socket.close()
