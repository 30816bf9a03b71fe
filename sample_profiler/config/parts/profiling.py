"""Options of the profiler: where and how much it records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from sample_profiler.config.limits import TextRule, option, text_option

_WINDOW = "START:LENGTH in seconds, such as 60:5, or nothing"


def parse_window(text: str) -> tuple[float, float] | None:
    """Return start and length of a window of time in seconds; None if there is none.

    Raises:
        ValueError: it is no window; the message says why.
    """
    if not text:
        return None
    start_text, separator, length_text = text.partition(":")
    try:
        start_s, length_s = float(start_text), float(length_text)
    except ValueError as error:
        raise ValueError("is no START:LENGTH" if separator else "has no colon") from error
    if not (0 <= start_s < math.inf):
        raise ValueError("starts before the run, or never")
    if not (0 < length_s < math.inf):
        raise ValueError("has a length that is not above 0")
    return start_s, length_s


def _find_window_reason(text: str) -> str:
    try:
        parse_window(text)
    except ValueError as error:
        return str(error)
    return ""


@dataclass(frozen=True, kw_only=True)
class ProfilingOptions:
    """Profiling."""

    profile_dir: str = ""
    """Folder for the record files of running processes, in which each experiment has one of its own; empty:
    profile/live in the run's folder. Worth setting where that is on a network; who resumes a run gives it again."""

    flight_recorder_mb: float = option(8.0, minimum=0, maximum=65_536)
    """Room that each process has for its latest blocks, in MiB: the last seconds of a timeline, also after a crash; 0:
    none, and no timelines."""

    timeline_seconds: str = text_option("", TextRule(find_reason=_find_window_reason, allowed=_WINDOW))
    """Write a timeline of a window of the run to profile/timeline.json: START:LENGTH, both in seconds, counted from the
    start of the run; empty: none."""

    profile_device: Literal["off", "events", "synchronize"] = "events"
    """How long the GPU works on what a block gave it: off: not measured; events: measured without waiting; synchronize:
    wait for the GPU on both sides of each such block, which makes device times exact and distorts all others. Without a
    GPU nothing is measured."""
