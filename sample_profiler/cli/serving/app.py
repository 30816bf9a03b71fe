"""Owns the addresses of the live page: what each answers. Who gets an answer is the guard's to say."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from sample_profiler.cli.serving.access import AccessControl
from sample_profiler.cli.serving.actions import act_beside
from sample_profiler.cli.serving.board import MOST_COMPARED, Board
from sample_profiler.cli.serving.frames import LIST, RUN, STYLE_OF_PAGES, TIMELINE, format_frame
from sample_profiler.cli.serving.run_files import documents_of, open_inside
from sample_profiler.cli.serving.watched_runs import WatchedRuns
from sample_profiler.errors import SampleProfilerError

__all__ = ["make_app"]

_KINDS = {".js": "text/javascript", ".svg": "image/svg+xml"}
_STATIC = ("page.js", "timeline.js", "timeline_formats.js", "timeline_worker.js", "icon.svg")
_TYPES = {".json": "application/json", ".mp4": "video/mp4", ".gif": "image/gif"}
_CHUNK_BYTES = 1 << 16
_MOST_TABS = 200


class _Pages:
    """The answers.

    Args:
        train_dir: whose runs are shown.
        is_over: tells whether the server ends.
    """

    def __init__(self, train_dir: Path, is_over: Callable[[], bool]) -> None:
        self._train_dir = train_dir
        self._is_over = is_over
        self._board = Board(WatchedRuns(train_dir), is_over)
        self._num_tabs = 0
        self._busy: set[str] = set()

    @contextlib.asynccontextmanager
    async def looking(self, _: Starlette) -> AsyncIterator[None]:
        """Look at the runs as long as the server is there."""
        tasks = [asyncio.create_task(keep()) for keep in (self._board.keep_looking, self._board.keep_watch)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:  # one that has failed says so here
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def list(self, _: Request) -> Response:
        """Show all runs."""
        title = self._train_dir.resolve().name
        return HTMLResponse(format_frame(title, LIST, {"kind": "list"}, "page.js"))

    async def run(self, request: Request) -> Response:
        """Show a run."""
        name = request.query_params.get("name", "")
        if await self._board.path_of(name) is None:
            return _no_such("run")
        return HTMLResponse(format_frame(name, RUN, {"kind": "run", "run": name}, "page.js"))

    async def timeline(self, request: Request) -> Response:
        """Show a timeline of a run."""
        name, file = request.query_params.get("name", ""), request.query_params.get("file", "")
        source = f"file?name={quote(name, safe='')}&file={quote(file, safe='')}"
        return HTMLResponse(format_frame(file, TIMELINE, {"source": source}, "timeline.js"))

    async def events(self, request: Request) -> Response:
        """Send what changes, as long as there is somebody to send it to."""
        if self._num_tabs >= _MOST_TABS:
            return PlainTextResponse("too many tabs look at this\n", HTTPStatus.SERVICE_UNAVAILABLE)
        if name := request.query_params.get("name", ""):
            if await self._board.path_of(name) is None:
                return _no_such("run")
            changes = self._board.follow_run(name)
        else:
            changes = self._board.follow_list(request.query_params.getlist("compare")[:MOST_COMPARED])
        if request.method == "HEAD":  # which would have no end either
            return Response(media_type="text/event-stream")
        return StreamingResponse(self._stream(changes), media_type="text/event-stream")

    async def _stream(self, changes: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self._num_tabs += 1
        try:
            async for changed in changes:
                yield changed
        finally:
            self._num_tabs -= 1

    async def file(self, request: Request) -> Response:
        """Send a timeline, a capture or a video of a run."""
        path = await self._board.path_of(request.query_params.get("name", ""))
        document = None if path is None else documents_of(path).get(request.query_params.get("file", ""))
        if path is None or document is None:
            return _no_such("file")
        try:
            descriptor = open_inside(path, document.path)
        except OSError:
            return _no_such("file")
        num_bytes = os.fstat(descriptor).st_size
        num_sent = 0 if request.method == "HEAD" else num_bytes
        kind = _TYPES.get(document.path.suffix, "application/octet-stream")
        shown = "inline" if kind.startswith(("video", "image")) else "attachment"
        headers = {
            "Content-Disposition": f"{shown}; filename*=UTF-8''{quote(document.name, safe='')}",
            "Content-Length": str(num_bytes),
        }
        return StreamingResponse(_chunks(descriptor, num_sent), media_type=kind, headers=headers)

    async def act(self, request: Request) -> Response:
        """Have something done to a run."""
        name = request.query_params.get("name", "")
        path = await self._board.path_of(name)
        if path is None:
            return _no_such("run")
        try:
            asked = json.loads(await request.body())
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict):
            return JSONResponse({"error": "a request is one JSON object"}, HTTPStatus.BAD_REQUEST)
        if name in self._busy:
            return JSONResponse({"error": "this run is doing something already"}, HTTPStatus.CONFLICT)
        self._busy.add(name)
        try:
            return JSONResponse(await act_beside(path, asked, self._is_over))
        except SampleProfilerError as error:
            return JSONResponse({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        finally:
            self._busy.discard(name)


def make_app(train_dir: Path, token: str, host: str, is_over: Callable[[], bool]) -> AccessControl:
    """Return what answers for a folder of runs.

    Args:
        train_dir: the folder.
        token: to be known by who asks.
        host: that the server listens at.
        is_over: tells whether the server ends: tabs are let go then.
    """
    pages = _Pages(train_dir, is_over)
    reading = {"/": pages.list, "/run": pages.run, "/timeline": pages.timeline}
    reading |= {"/events": pages.events, "/file": pages.file}
    routes = [Route(path, answer, methods=["GET"]) for path, answer in reading.items()]
    routes += [Route("/act", pages.act, methods=["POST"]), Route("/page.css", _style, methods=["GET"])]
    routes += [Route(f"/{name}", _static, methods=["GET"]) for name in _STATIC]
    app = Starlette(routes=routes, lifespan=pages.looking)
    app.router.redirect_slashes = False
    return AccessControl(app, token, host)


async def _style(_: Request) -> Response:
    return Response(STYLE_OF_PAGES, media_type="text/css")


async def _static(request: Request) -> Response:
    name = request.url.path.removeprefix("/")
    text = files("sample_profiler.cli.serving").joinpath(name).read_text(encoding="utf-8")
    return Response(text, media_type=_KINDS[Path(name).suffix])


def _no_such(what: str) -> Response:
    return PlainTextResponse(f"there is no such {what} in this folder\n", HTTPStatus.NOT_FOUND)


def _chunks(descriptor: int, num_bytes: int) -> Iterator[bytes]:
    with open(descriptor, "rb") as file:
        while chunk := file.read(min(_CHUNK_BYTES, num_bytes)):  # it may grow meanwhile
            num_bytes -= len(chunk)
            yield chunk
