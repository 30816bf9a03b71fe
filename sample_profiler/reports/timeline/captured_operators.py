"""Operators in a timeline: what captures with `torch.profiler` left in a run's folder, on the clock of its blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.reports.merged.chrome_trace import NS_PER_US, ChromeTrace, named, to_json
from sample_profiler.reports.merged.traces import BLOCK_CATEGORY
from sample_profiler.reports.timeline.tracks import Tracks
from sample_profiler.run_folder import RunFolder

__all__ = ["CapturedTraces", "find_captures"]

_DOCUMENTS, _PARTS = "torch_*.json", "torch_*/*.json"


def find_captures(run_dir: Path) -> list[Path]:
    """Return the traces that captures of a run have left in its folder: whole documents, and parts of broken ones."""
    folder = RunFolder(run_dir).captures
    found = (*sorted(folder.glob(_DOCUMENTS)), *sorted(folder.glob(_PARTS)))
    # A pipe of such a name would be waited for.
    return [path for path in found if path.is_file() and not path.name.startswith(".")]


class CapturedTraces:
    """Adds captured traces to a timeline.

    Args:
        paths: of the traces.
        records: of the processes, with their events: blocks that these have are not shown twice.

    Attributes:
        problems: what could not be shown, one sentence each; complete when all lines have been taken.
    """

    def __init__(self, paths: Sequence[Path], records: Sequence[ProcessRecord]) -> None:
        self.problems: list[str] = []
        self._paths = paths
        self._records = {name: record for record in records for name in (*record.components, record.name)}
        self._clock = records[0] if records else None

    def lines(self, tracks: Tracks, first_block_ns: Mapping[str, int], end_ns: int) -> Iterator[str]:
        """Yield the events of all traces as JSON.

        Args:
            tracks: of the timeline.
            first_block_ns: by component: since when the timeline has its blocks.
            end_ns: what begins later is left out.
        """
        for path in self._paths:
            with self._noting_problems():
                # As text within this block: some numbers that can be read have no place in a trace.
                yield from map(to_json, self._one(ChromeTrace(path), tracks, first_block_ns, end_ns))

    @contextlib.contextmanager
    def _noting_problems(self) -> Iterator[None]:
        """Go on without a trace that cannot be read: the rest of the timeline is worth having."""
        try:
            yield
        except (OSError, ValueError) as error:
            self.problems.append(f"a capture is left out, or its end: {error}")

    def _one(
        self, trace: ChromeTrace, tracks: Tracks, first_block_ns: Mapping[str, int], end_ns: int
    ) -> Iterator[dict[str, Any]]:
        is_part = trace.path.match(_PARTS)
        if not is_part and not trace.base_ns:
            raise ValueError(f"{trace.path} does not say when it was captured: that is so before version 1")
        names: dict[Any, str] = {}
        for event in trace.events():
            if event.get("ph") == "M" and str(event.get("name")).startswith("process_"):
                if not is_part and event["name"] == "process_name":
                    names[event["pid"]] = str(event["args"]["name"])
                continue
            component = trace.path.stem if is_part else names.get(event.get("pid"), trace.path.stem)
            yield from tracks.begin_process(component)
            zero_wall_ns = self._wall_ns(component, tracks.zero_ns)
            new = trace.on_clock(event, zero_wall_ns, trace.path.stem)
            if "ts" in new and not self._is_shown(new, tracks.zero_ns, first_block_ns.get(component), end_ns):
                continue
            pid = tracks.processes[component]
            thread = f"{trace.path.stem} {event.get('pid') if is_part else ''} {event.get('tid')}"
            tid, is_new = tracks.captured(pid, thread)
            is_name = event.get("ph") == "M" and event.get("name") == "thread_name"
            if is_name or is_new:  # not all tracks have a name
                name = event["args"]["name"] if is_name else event.get("tid")
                yield named("thread_name", pid, tid, f"captured: {name}")
            if not is_name:
                yield {**new, "pid": pid, "tid": tid}

    def _wall_ns(self, component: str, monotonic_ns: int) -> int:
        record = self._records.get(component, self._clock)
        return monotonic_ns if record is None else record.wall_ns(monotonic_ns)

    def _is_shown(self, event: Mapping[str, Any], zero_ns: int, first_block_ns: int | None, end_ns: int) -> bool:
        start_us, length_us = float(event["ts"]), float(event.get("dur", 0.0))
        start_ns = zero_ns + start_us * NS_PER_US
        if event.get("cat") == BLOCK_CATEGORY and first_block_ns is not None and start_ns >= first_block_ns:
            return False  # the timeline has it
        return start_us + length_us >= 0 and start_ns <= end_ns
