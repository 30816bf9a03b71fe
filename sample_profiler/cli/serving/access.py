"""Owns who gets an answer of the live page at all: whoever knows the token, and comes from a page of its own.

Looked at before anything else is done with a request: the name it was asked by (a foreign one is a page of somebody
else's whose name leads here: DNS rebinding), the token, and of what changes something the page that it comes from.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["AccessControl", "is_loopback", "make_token"]

_HOST = re.compile(r"(?:([\w.-]+)|\[([0-9A-Fa-f:.]+)\])(?::[0-9]{0,5})?", re.ASCII)
"""A name, or an address of IPv6 in brackets; and a port."""

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_READING = ("GET", "HEAD")
_MOST_BODY_BYTES = 4096


def make_token() -> str:
    """Return a token that nobody guesses."""
    return secrets.token_urlsafe(24)


def is_loopback(host: str) -> bool:
    """Tell whether only programs of this machine reach a server of this address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class _RefusedError(Exception):
    """A request that gets no answer.

    Args:
        status: of HTTP.
        reason: why.
    """

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class AccessControl:
    """Lets requests through to an application.

    Args:
        app: that answers.
        token: to be known.
        host: that the server listens at.
    """

    def __init__(self, app: ASGIApp, token: str, host: str) -> None:
        self._app = app
        self._token = token.encode()
        self._listens_to_others = not is_loopback(host)
        self._names = {"localhost", host.casefold()}
        if self._listens_to_others:
            self._names |= {socket.gethostname().casefold(), socket.getfqdn().casefold()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse to."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # nobody here talks by web sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            cookie = self._check(scope)
        except _RefusedError as refused:
            response = PlainTextResponse(f"{refused}\n", refused.status, headers=_HEADERS)
            await response(scope, receive, send)
            return
        await self._app(scope, receive, _adding_headers(send, cookie))

    def _check(self, scope: Scope) -> str:
        """Return the cookie to be set, if any.

        Raises:
            _RefusedError: the request is none that is answered.
        """
        host = self._check_host(scope)
        is_asked_for = self._is_token(_query_token(scope))
        if not (is_asked_for or self._is_token(_bearer(scope)) or any(map(self._is_token, _cookies(scope)))):
            reason = "no token, or a wrong one: open the address that sample-profiler serve has printed"
            raise _RefusedError(HTTPStatus.UNAUTHORIZED, reason)
        if scope["method"] not in _READING:
            self._check_change(scope, host)
        return (
            f"{_cookie_name(scope)}={self._token.decode()}; Path=/; HttpOnly; SameSite=Strict" if is_asked_for else ""
        )

    def _check_host(self, scope: Scope) -> str:
        hosts = list(_headers(scope, b"host"))
        if len(hosts) != 1:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, f"{len(hosts)} Host headers; there is to be one")
        found = _HOST.fullmatch(hosts[0])
        name = (found[1] or found[2]).casefold() if found else ""
        if name not in self._names and not self._is_own_address(name):
            raise _RefusedError(HTTPStatus.MISDIRECTED_REQUEST, "this server is asked for by another name than its own")
        return hosts[0]

    def _is_own_address(self, name: str) -> bool:
        """Tell whether a name is an address in numbers, which no name server has a say in."""
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self._listens_to_others

    def _check_change(self, scope: Scope, host: str) -> None:
        """Let through what a page of this server asks for, or a program that shows the token itself."""
        origins = list(_headers(scope, b"origin"))
        is_by_cookie = not (self._is_token(_bearer(scope)) or self._is_token(_query_token(scope)))
        if (origins or is_by_cookie) and origins != [f"http://{host}"]:
            raise _RefusedError(HTTPStatus.FORBIDDEN, "what changes something is asked for by the pages of this server")
        lengths = list(_headers(scope, b"content-length"))
        # A request that says nothing of a body has none.
        is_short = len(lengths) < 2 and all(each.isdecimal() and int(each) <= _MOST_BODY_BYTES for each in lengths)
        if not is_short or any(_headers(scope, b"transfer-encoding")):  # which would count instead
            raise _RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"of a request {_MOST_BODY_BYTES:,} bytes are read"
            )

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(errors="surrogateescape"), self._token)


def _headers(scope: Scope, name: bytes) -> Iterable[str]:
    return (value.decode("latin-1") for key, value in scope["headers"] if key == name)


def _query_token(scope: Scope) -> str:
    query: str = scope["query_string"].decode("latin-1")
    try:
        return parse_qs(query, max_num_fields=20).get("token", [""])[0]
    except ValueError:
        return ""


def _bearer(scope: Scope) -> str:
    scheme, _, token = next(iter(_headers(scope, b"authorization")), "").partition(" ")
    return token.strip() if scheme.casefold() == "bearer" else ""


def _cookies(scope: Scope) -> Iterator[str]:
    """Yield what cookies of this server's name say, among those that other servers of this machine have left."""
    for header in _headers(scope, b"cookie"):
        for cookie in header.split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == _cookie_name(scope):
                yield value


def _cookie_name(scope: Scope) -> str:
    """Return a name of its own for each port: to browsers all of a machine are one site."""
    server: Any = scope.get("server")
    return f"sample_profiler_{server[1] if server else 0}"


def _adding_headers(send: Send, cookie: str) -> Send:
    more = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
    if cookie:
        more.append((b"set-cookie", cookie.encode()))

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return send_with_headers
