"""Owns what `sample-profiler compare --metric time_to=…` reads of runs, and says of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from sample_profiler.analysis.comparing.times_to import TimeTo, compare_times
from sample_profiler.cli.comparing.runs import ComparedRun, CompareRequest
from sample_profiler.errors import SessionError
from sample_profiler.files import read_small_text
from sample_profiler.reports.comparison import describe_time_to, describe_times
from sample_profiler.run_folder import RunFolder

__all__ = ["ComparedTimes"]


class ComparedTimes:
    """Compares the seconds from the start of their processes until runs are as good as asked.

    Args:
        request: what is compared.
    """

    def __init__(self, request: CompareRequest) -> None:
        self._request = request
        self._pairs: list[tuple[TimeTo, TimeTo]] = []

    def add(self, a: ComparedRun, b: ComparedRun) -> str:
        """Take a pair of runs in, and return its figures in words.

        Raises:
            SessionError: a run does not tell when it got there.
        """
        pair = _read_time(a, self._request.goal), _read_time(b, self._request.goal)
        self._pairs.append(pair)
        return f"A {describe_time_to(pair[0])}, B {describe_time_to(pair[1])}"

    def conclude(self) -> tuple[dict[str, Any], str]:
        """Return what is to be said of all pairs, as plain data and as a text."""
        comparison = compare_times(self._pairs, self._request.margin)
        document = {
            "goal": self._request.goal,
            "times": [[asdict(run) for run in pair] for pair in self._pairs],
            "comparison": asdict(comparison),
        }
        return document, describe_times(comparison, self._request.goal, self._request.margin)


def _read_time(run: ComparedRun, goal: str) -> TimeTo:
    """Return when the last of the policies of a run got there."""
    path = RunFolder(run.folder).benchmark
    try:
        benchmark = json.loads(read_small_text(path))
        entries = [entry for entry in benchmark["thresholds"] if entry["threshold"] == goal]
        if all(entry["frames"] is not None for entry in entries):
            last = max(entries, key=lambda entry: float(entry["process_s"]))
            return TimeTo(float(last["process_s"]), int(last["frames"]), is_reached=True)
        frames = max(map(int, benchmark["frames"].values()))
        return TimeTo(float(benchmark["process_s"]), frames, is_reached=False)
    except (OSError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise SessionError(
            f"{path} does not tell when the run got to {goal} ({type(error).__name__}: {error}): give a command that "
            "takes --thresholds and --stop_at"
        ) from error
