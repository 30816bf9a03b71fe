"""Follows the record files of a run for a window of any length, and makes a timeline of it. Costs the run nothing."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from sample_profiler.errors import RecordError, SessionError
from sample_profiler.profiling.record.events import Events
from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.profiling.record.reader import EventFollower, is_written, read_followed
from sample_profiler.reports.merged.perfetto_trace import PERFETTO
from sample_profiler.reports.timeline.timeline import Timeline
from sample_profiler.run_folder import RunFolder

__all__ = ["TimelineCapture", "TimelineRecorder", "capture_timeline"]

_POLL_S = 0.25
_MOST_AS_JSON = 500_000  # events; these are 64 MiB


@dataclass(frozen=True)
class TimelineCapture:
    """What a timeline has.

    Attributes:
        path: where it is.
        num_passes: passes of blocks in it.
        num_lost: events that were overwritten before they could be read, by process; only where there are some.
        components: whose blocks it has.
    """

    path: Path
    num_passes: int
    num_lost: dict[str, int]
    components: list[str]


@dataclass
class _Followed:
    """A process whose events are taken.

    Attributes:
        follower: of its file.
        spool: what has been taken, in a temporary file: a window may be long.
    """

    follower: EventFollower
    spool: IO[bytes] = field(default_factory=tempfile.TemporaryFile)


class TimelineRecorder:
    """Takes the events of all processes of a run from now on; call `poll` a few times a second, then `finish`.

    Args:
        run_dir: the run's folder.
        components: whose blocks are shown, with the timers of their processes; None: all.
    """

    def __init__(self, run_dir: Path, components: Collection[str] | None = None) -> None:
        self._live = RunFolder(run_dir).live()
        self._captures = RunFolder(run_dir).captures
        self._components = components
        self._start_ns = time.perf_counter_ns()
        self._followed: dict[Path, _Followed] = {}
        self._follow_new(from_start=False)
        self._take()

    def poll(self) -> None:
        """Take what is new, also of processes that are new."""
        self._follow_new(from_start=True)
        self._take()

    def _follow_new(self, *, from_start: bool) -> None:
        for path in self._live.records():
            if path not in self._followed:
                try:
                    self._followed[path] = _Followed(EventFollower(path, from_start=from_start))
                except RecordError:
                    continue  # just being removed

    def _take(self) -> None:
        for followed in self._followed.values():
            try:
                events = followed.follower.poll()
            except RecordError:
                continue
            followed.spool.write(events.since(self._start_ns).data)

    def has_rings(self) -> bool:
        """Tell whether any process keeps its latest blocks."""
        return any(followed.follower.has_ring for followed in self._followed.values())

    def is_over(self) -> bool:
        """Tell whether none of the processes is there any more."""
        return not any(_is_written(followed.follower) for followed in self._followed.values())

    def close(self) -> None:
        """Let go of the record files and of what was taken, without a timeline."""
        for followed in self._followed.values():
            followed.spool.close()
            followed.follower.close()

    def finish(self, output: Path | None = None) -> TimelineCapture:
        """Take the last events and write the timeline.

        Args:
            output: is written, in the format that its name asks for (see `write_trace`); None: a file among the
                captures of the run, as JSON, or, where that would be large, in Perfetto's own format.

        Raises:
            OSError: it cannot be written.
        """
        end_ns = time.perf_counter_ns()
        self.poll()
        records, num_lost = [], {}
        for followed in self._followed.values():
            with followed.spool, followed.follower:
                events, record = _map(followed.spool), _read(followed.follower)
            if record is None:
                continue
            record.events = events
            if self._components is not None:  # timers go with whatever is shown of their process
                _hide(record, set(record.components) - set(self._components))
            record.num_events_lost = followed.follower.num_lost
            if record.components:
                records.append(record)
                if record.num_events_lost:
                    num_lost[record.name] = record.num_events_lost
        self._followed.clear()
        output = output or self._captures / _name(sum(map(len, (record.events for record in records))))
        output.parent.mkdir(parents=True, exist_ok=True)
        timeline = Timeline(records, start_ns=self._start_ns, end_ns=end_ns)
        timeline.write(output)
        components = [name for record in records for name in record.components]
        return TimelineCapture(output, timeline.num_passes, num_lost, components)


def _name(num_events: int) -> str:
    ending = ".json" if num_events <= _MOST_AS_JSON else PERFETTO
    return f"timeline_{time.strftime('%Y%m%d_%H%M%S')}{ending}"


def _map(spool: IO[bytes]) -> Events:
    """Return events that were spooled, where they are: there may be more than fit into memory."""
    spool.flush()
    is_empty = not spool.seek(0, os.SEEK_END)
    return Events() if is_empty else Events(memoryview(mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ)))


def _read(follower: EventFollower) -> ProcessRecord | None:
    # Through the open file: that of a run that ends is removed. Nodes are there before their events, so all have names.
    try:
        return read_followed(follower)
    except RecordError:
        return None


def _hide(record: ProcessRecord, components: Collection[str]) -> None:
    owners = record.gauge_owners()
    record.gauges = {name: gauge for name, gauge in record.gauges.items() if owners[name][0] not in components}
    for component in components:
        del record.trees[component]


def _is_written(follower: EventFollower) -> bool:
    try:
        return is_written(follower)
    except RecordError:
        return False


def capture_timeline(
    run_dir: Path,
    seconds: float,
    output: Path | None = None,
    components: Collection[str] | None = None,
    *,
    is_over: Callable[[], bool] = lambda: False,
    on_progress: Callable[[float], None] = lambda _: None,
    on_writing: Callable[[], None] = lambda: None,
) -> TimelineCapture:
    """Follow a run for some seconds and write its timeline.

    Args:
        run_dir: the run's folder.
        seconds: how long.
        output: is written; None: see `TimelineRecorder.finish`.
        components: whose blocks are shown; None: all.
        is_over: ends the window early, as does the end of the run.
        on_progress: is told the seconds that have passed.
        on_writing: is called when the window is over: writing what was in it takes a while, too.

    Raises:
        OSError: the timeline cannot be written.
        SessionError: there is nothing to follow.
    """
    if not RunFolder(run_dir).live().records():
        raise SessionError(f"{run_dir} has no record files to follow; give the folder of a run that goes on")
    recorder = TimelineRecorder(run_dir, components)
    if not recorder.has_rings():
        recorder.close()
        raise SessionError(f"the processes in {run_dir} keep no events (--flight_recorder_mb=0): there is no timeline")
    start_s = time.monotonic()
    while (passed_s := time.monotonic() - start_s) < seconds and not (is_over() or recorder.is_over()):
        on_progress(passed_s)
        time.sleep(min(_POLL_S, seconds - passed_s))
        recorder.poll()
    on_writing()
    return recorder.finish(output)
