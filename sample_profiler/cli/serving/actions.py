"""Owns what a page can have done to a run that goes on: by the roads that the commands of a terminal take."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeAlias

from sample_profiler.cli.capture.capture import CAPTURE_TOOLS, make_document
from sample_profiler.cli.capture.live import CaptureRequest, Interruption, connected
from sample_profiler.cli.serving.run_files import RunFiles
from sample_profiler.errors import CaptureError, UsageError

__all__ = ["MOST_SECONDS", "PATIENCE_S", "act", "act_beside"]

MOST_SECONDS = 120.0
PATIENCE_S = 5.0
"""How long a server that ends waits for what is being done."""

_SAVING_S = 60.0
_POLL_S = 0.1
_PULSE_S = 0.2


async def act_beside(run_dir: Path, request: dict[str, Any], is_over: Callable[[], bool]) -> dict[str, str]:
    """Do as `act` in a thread of its own: what takes long delays neither looks nor what other runs are asked for.

    Args:
        run_dir: the run's folder.
        request: what is asked for.
        is_over: tells whether the server ends: a capture is then ended early, and what does not answer is left alone.

    Raises:
        CaptureError: see `act`; or the server ends meanwhile.
        SessionError: see `act`.
        UsageError: see `act`.
    """
    interrupted, promised = Interruption(), Future[dict[str, str]]()

    def work() -> None:
        try:
            promised.set_result(act(run_dir, request, interrupted))
        except BaseException as error:  # it is told where it is waited for
            promised.set_exception(error)

    promised.set_running_or_notify_cancel()
    threading.Thread(target=work, name="action", daemon=True).start()  # a thread of a pool would be waited for
    done = asyncio.wrap_future(promised)
    until_s = None
    try:
        while not done.done():
            await asyncio.wait([done], timeout=_PULSE_S)
            if until_s is None and is_over():
                interrupted.is_wanted, until_s = True, time.monotonic() + PATIENCE_S
            if until_s is not None and time.monotonic() > until_s and not done.done():
                raise CaptureError("the server has ended before this was done")
    finally:
        interrupted.is_wanted = True
        done.cancel()  # what comes of it later is nobody's business
    return done.result()


def act(run_dir: Path, request: dict[str, Any], interrupted: Interruption) -> dict[str, str]:
    """Do what a page asks for, and return what came of it: words, and the name of the file if there is one.

    Args:
        run_dir: the run's folder.
        request: `do` is `save`, `end` or `capture`; a capture has a `tool` and `seconds`.
        interrupted: ends a capture early once it is wanted; what there is of it is written.

    Raises:
        CaptureError: the run cannot be asked, or does not do it.
        SessionError: its folder has links that lead elsewhere.
        UsageError: the request makes no sense, or a document cannot be written.
    """
    what = request.get("do")
    if not isinstance(what, str) or what not in _ACTIONS:
        raise UsageError(f"unknown request {what!r}; allowed are {', '.join(_ACTIONS)}")
    RunFiles(run_dir).fingerprint()  # what is written is written there
    return _ACTIONS[what](run_dir, request, interrupted)


def _save(run_dir: Path, _: dict[str, Any], __: Interruption) -> dict[str, str]:
    with connected(run_dir) as client:
        saving = client.ask({"do": "save"})
        until_s = time.monotonic() + _SAVING_S
        while True:
            if "error" in saving:
                raise CaptureError(str(saving["error"]))
            if errors := saving.get("errors"):
                raise CaptureError("; ".join(f"{name}: {error}" for name, error in dict(errors).items()))
            if not saving.get("waits_for"):
                return {"told": "A checkpoint of every policy is saved."}
            if time.monotonic() > until_s:
                raise CaptureError(f"{', '.join(saving['waits_for'])} did not save within {_SAVING_S:g} s")
            time.sleep(_POLL_S)
            saving = client.ask({"do": "saved", "id": saving.get("id")})


def _end(run_dir: Path, _: dict[str, Any], __: Interruption) -> dict[str, str]:
    with connected(run_dir) as client:
        answer = client.ask({"do": "end"})
    if "error" in answer:
        raise CaptureError(str(answer["error"]))
    return {"told": "The run ends in order: it saves, and writes its report."}


def _capture(run_dir: Path, request: dict[str, Any], interrupted: Interruption) -> dict[str, str]:
    tool, seconds = request.get("tool", CAPTURE_TOOLS[0]), request.get("seconds", 5.0)
    if tool not in CAPTURE_TOOLS:
        raise UsageError(f"unknown tool {tool!r}; allowed are {', '.join(CAPTURE_TOOLS)}")
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= MOST_SECONDS:
        raise UsageError(f"seconds is {seconds!r}; allowed is more than 0, at most {MOST_SECONDS:g}")
    captured = CaptureRequest(tool, None, None, float(seconds))
    with _documents_told_of():
        path, lines = make_document(run_dir, captured, None, interrupted, lambda _: None)
    return {"told": "\n".join([f"Captured: {path.name}", *lines]), "file": path.name}


@contextlib.contextmanager
def _documents_told_of() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"the document cannot be written: {error.strerror or error}") from error
    except ValueError as error:  # a part is not what its tool writes
        raise CaptureError(str(error)) from error


_Action: TypeAlias = Callable[[Path, dict[str, Any], Interruption], dict[str, str]]
_ACTIONS: dict[str, _Action] = {
    "save": _save,
    "end": _end,
    "capture": _capture,
}
