"""Owns what a page can have done to a run that goes on: by the roads that the commands of a terminal take."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from sample_profiler.cli.capture.capture import CAPTURE_TOOLS, make_document
from sample_profiler.cli.capture.live import CaptureRequest, Interruption, connected
from sample_profiler.cli.serving.run_files import fingerprint
from sample_profiler.errors import CaptureError, UsageError

__all__ = ["MOST_SECONDS", "act"]

MOST_SECONDS = 120.0
_SAVING_S = 60.0
_POLL_S = 0.1


def act(run_dir: Path, request: dict[str, Any]) -> dict[str, str]:
    """Do what a page asks for, and return what came of it: words, and the name of the file if there is one.

    Args:
        run_dir: the run's folder.
        request: `do` is `save`, `end` or `capture`; a capture has a `tool` and `seconds`.

    Raises:
        CaptureError: the run cannot be asked, or does not do it.
        SessionError: its folder has links that lead elsewhere.
        UsageError: the request makes no sense, or a document cannot be written.
    """
    what = request.get("do")
    if not isinstance(what, str) or what not in _ACTIONS:
        raise UsageError(f"unknown request {what!r}; allowed are {', '.join(_ACTIONS)}")
    fingerprint(run_dir)  # what is written is written there
    return _ACTIONS[what](run_dir, request)


def _save(run_dir: Path, _: dict[str, Any]) -> dict[str, str]:
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


def _end(run_dir: Path, _: dict[str, Any]) -> dict[str, str]:
    with connected(run_dir) as client:
        answer = client.ask({"do": "end"})
    if "error" in answer:
        raise CaptureError(str(answer["error"]))
    return {"told": "The run ends in order: it saves, and writes its report."}


def _capture(run_dir: Path, request: dict[str, Any]) -> dict[str, str]:
    tool, seconds = request.get("tool", CAPTURE_TOOLS[0]), request.get("seconds", 5.0)
    if tool not in CAPTURE_TOOLS:
        raise UsageError(f"unknown tool {tool!r}; allowed are {', '.join(CAPTURE_TOOLS)}")
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= MOST_SECONDS:
        raise UsageError(f"seconds is {seconds!r}; allowed is more than 0, at most {MOST_SECONDS:g}")
    captured = CaptureRequest(tool, None, None, float(seconds))
    with _documents_told_of():
        path, lines = make_document(run_dir, captured, None, Interruption(), lambda _: None)
    return {"told": "\n".join([f"Captured: {path.name}", *lines]), "file": path.name}


@contextlib.contextmanager
def _documents_told_of() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"the document cannot be written: {error.strerror or error}") from error
    except ValueError as error:  # a part is not what its tool writes
        raise CaptureError(str(error)) from error


_Action: TypeAlias = Callable[[Path, dict[str, Any]], dict[str, str]]
_ACTIONS: dict[str, _Action] = {
    "save": _save,
    "end": _end,
    "capture": _capture,
}
