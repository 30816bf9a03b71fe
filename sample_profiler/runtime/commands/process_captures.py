"""Owns the profilers that run in this process at the moment, begun and ended by commands."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sample_profiler.errors import CaptureError
from sample_profiler.profiling.captures.tools import Capture, begin_capture
from sample_profiler.runtime.messages.heartbeats import CAPTURE_S

__all__ = ["CHECK_INTERVAL_S", "end_captures", "end_due_captures", "start_capture", "stop_capture"]

logger = logging.getLogger(__name__)

CHECK_INTERVAL_S = 0.2
"""How often a loop calls `end_due_captures`."""

_EXCLUSIVE = {"cprofile", "yappi", "pyinstrument", "memray"}  # they would see, and slow down, each other


@dataclass(frozen=True)
class _Running:
    capture: Capture
    due_s: float


_running: dict[str, _Running] = {}
_ended: dict[str, dict[str, Any]] = {}


def start_capture(tool: str, path: str, seconds: float = math.inf) -> None:
    """Begin a capture in this process.

    Args:
        tool: one of `captures.TOOLS`.
        path: of the part file to write at its end.
        seconds: after which it ends by itself.

    Raises:
        CaptureError: the tool is not there, or it or another in its way captures already.
    """
    others = _EXCLUSIVE & _running.keys() if tool in _EXCLUSIVE else {tool} & _running.keys()
    if others:
        raise CaptureError(f"{others.pop()} is capturing in this process already: wait until that has ended")
    _ended.pop(tool, None)
    _running[tool] = _Running(begin_capture(tool, path), time.monotonic() + seconds)


def stop_capture(tool: str) -> dict[str, Any] | None:
    """End a capture and write its part file; return facts about it, or None if there is none.

    Of a capture that has ended by itself meanwhile, the facts are those of its end.

    Raises:
        OSError: the file cannot be written.
        CaptureError: another profiler of this process was in its way; or the file of a capture that has ended by itself
            could not be written.
    """
    running = _running.pop(tool, None)
    facts = _ended.pop(tool, None) if running is None else running.capture.end()
    if facts is not None and "error" in facts:
        raise CaptureError(facts["error"])
    return facts


def end_due_captures(beat: Callable[[float], None] = lambda _: None) -> None:
    """End the captures whose time is over; a part that cannot be written does not end the component.

    Args:
        beat: tells whoever watches this process for how long it may be silent now.
    """
    for tool, running in list(_running.items()):
        if time.monotonic() >= running.due_s:
            del _running[tool]
            beat(CAPTURE_S)
            try:
                _ended[tool] = running.capture.end()
            except CaptureError as error:
                _ended[tool] = {"error": str(error)}
            except Exception as error:
                logger.warning("The capture with %s is lost: %s", tool, error)
                _ended[tool] = {"error": f"its part cannot be written: {error}"}
            beat(0.0)


def end_captures(beat: Callable[[float], None] = lambda _: None) -> None:
    """End all captures of this process, whose run is over; a part that cannot be written is a warning.

    Args:
        beat: tells whoever watches this process for how long it may be silent now.
    """
    while _running:
        tool, running = _running.popitem()
        beat(CAPTURE_S)
        try:
            running.capture.end()
        except Exception as error:  # the run is not over for a profiler's sake
            logger.warning("The capture with %s is lost: %s", tool, error)
