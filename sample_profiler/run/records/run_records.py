"""Owns what the Runner makes of its run's record files: documents while it runs, and the session at its end.

All of it is read from the files, as somebody outside of the run would: what a killed process has recorded is there, and
no component spends time on telling.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from sample_profiler.analysis.window import process_identity, window, with_recent_means
from sample_profiler.config import ProfilingOptions
from sample_profiler.config.parts.profiling import parse_window
from sample_profiler.errors import SessionError
from sample_profiler.files import written_whole
from sample_profiler.profiling.record.earlier_timers import take_off
from sample_profiler.profiling.record.process_record import PROCESS_GAUGES, ProcessRecord
from sample_profiler.profiling.session.session import KEPT_EVENTS_S, Session, read_live
from sample_profiler.profiling.timers.documents import make_run_document, worker_timers, write_document
from sample_profiler.profiling.timers.metadata import START_TIME
from sample_profiler.profiling.timers.nodes import TimerNode
from sample_profiler.profiling.timers.stacks import get_thread_stacks
from sample_profiler.profiling.timers.timers import get_timer_root
from sample_profiler.profiling.tree.gauges import GaugeNode
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.repeated_warnings import is_logged
from sample_profiler.reports.timeline.follow import TimelineRecorder
from sample_profiler.run.records.history import Columns, History, evaluated, to_json
from sample_profiler.run.records.lost_records import LostRecords
from sample_profiler.run.records.readings import RunReadings
from sample_profiler.run_folder import EARLIER, RunFolder
from sample_profiler.storage.checkpoint_names import has_trained
from sample_profiler.vocabulary import (
    BATCH_ROWS,
    FINISHED_TRAJECTORIES,
    FPS,
    FREE_SLOTS,
    POLICY_LAG,
    TRAJECTORIES_AT_LEARNER,
    WAITING_GROUPS,
)

__all__ = ["RunRecords"]

logger = logging.getLogger(__name__)

_READING_INTERVAL_S = 1.0
_MOST_OF_A_CORE = 0.004  # for reading how the run goes; of many processes, so that is done less often

_HISTORY: dict[str, Callable[[Sequence[float]], float]] = {
    FPS: max,
    POLICY_LAG: fmean,
    BATCH_ROWS: fmean,
    FINISHED_TRAJECTORIES: sum,
    TRAJECTORIES_AT_LEARNER: sum,
    FREE_SLOTS: sum,
    WAITING_GROUPS: sum,
    "memory_mib": sum,
}
"""Gauges of which a report shows the course, and how those of several processes become one figure."""


class RunRecords:
    """The recordings of a run.

    Args:
        run_folder: of the run.
        options: where record files are, and of what window a timeline is wanted.
        metadata: of the timers of this process, from before there was an environment in it, which may reset them;
            None: as it is now.

    Attributes:
        keeps_earlier: an earlier run in the folder has trained and this one has not: nothing of that one is replaced.
    """

    def __init__(self, run_folder: Path, options: ProfilingOptions, metadata: Mapping[str, str] | None = None) -> None:
        self._folder = RunFolder(run_folder)
        self._begun_metadata = get_thread_stacks().current().metadata if metadata is None else metadata
        self._begun_timers = get_timer_root().to_tree()
        self._live = self._folder.live(options.profile_dir)
        self._lost = LostRecords(self._live)
        self._window = parse_window(options.timeline_seconds)
        self.keeps_earlier = False
        self._has_removed_own = False
        self._has_replaced_earlier = False
        self._begun_s = time.monotonic()
        self._begun_wall_s = time.time()
        self._warm_up: Session | None = None
        self._num_unreadable = 0
        self._history = History()
        self._readings = RunReadings()
        self._next_reading_s = -math.inf
        self._noted: dict[tuple[str, str, int, int], Mapping[str, GaugeNode]] = {}
        self._timeline: TimelineRecorder | None = None
        self._writing: threading.Thread | None = None

    def set_earlier_aside(self) -> None:
        """Remove what an earlier run in the same folder has left; if that has trained, not before this one has."""
        if not has_trained(self._folder.path):
            self._remove_earlier()
            self._remove_own()
            return
        self.keeps_earlier = True
        if any(self._set_aside()):  # by a run that was killed before it trained: these tell of more
            self._remove_own()
        for path in list(self._own()):
            path.rename(RunFolder.aside(path))

    def replace_earlier(self) -> None:
        """Remove what an earlier run has left: this one has trained, and is what there is to be told of.

        Again, do nothing: the run's folder may be on a file system that lets who asks wait.
        """
        if self._has_replaced_earlier:
            return
        self._has_replaced_earlier = True
        with contextlib.suppress(OSError):
            self._folder.earlier_config.unlink()
        if self.keeps_earlier:
            self.keeps_earlier = False
            self._remove_earlier()

    def _own(self) -> Iterator[Path]:
        """Yield what tells of a run beside its session: to readers that is one run's, or they would mix two."""
        yield from self._live.records()
        yield from filter(Path.exists, (self._folder.steady, self._folder.history))

    def _set_aside(self) -> Iterator[Path]:
        yield from self._live.records_aside()
        yield from self._folder.documents_aside()

    def _remove_earlier(self) -> None:
        try:
            for path in list(self._set_aside()):
                path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("Recordings of the earlier run stay: %s", error)

    def put_earlier_back(self) -> None:
        """Leave the folder as it was before this run, which has trained nothing; without `keeps_earlier` do nothing."""
        if not self.keeps_earlier:
            return
        try:
            if not self._has_removed_own:  # once: Ctrl+C may come when some have their names again
                self._remove_own()
                self._has_removed_own = True
            for path in list(self._set_aside()):
                path.rename(path.with_suffix(""))
        except OSError as error:
            logger.warning("Recordings of the earlier run keep names that end in %s: %s", EARLIER, error)
        with contextlib.suppress(OSError):
            self._live.path.rmdir()

    def _remove_own(self) -> None:
        for path in (*self._own(), *self._live.records_being_made()):
            path.unlink(missing_ok=True)

    def _remove_record_files(self) -> None:
        for path in (*self._live.records(), *self._live.records_being_made()):
            path.unlink(missing_ok=True)

    def begin_steady_part(self, update_recording: Callable[[], None]) -> None:
        """Note what has been recorded so far, once: from here on the run is as it will be.

        Args:
            update_recording: brings the record file of this process up to date; called before that.
        """
        if self._warm_up is None:
            update_recording()
            self._warm_up = self._read(with_events=False, with_histograms=False)

    def end_steady_part(self) -> Session:
        """Return what has been recorded since the steady part began, for `write_session`."""
        session = self._read(with_events=False)
        if session is None:
            return Session(created_s=time.time())
        session.run |= self._history_facts()
        if self._warm_up is None:
            session.processes.clear()
        else:
            session = window(session, self._warm_up)
            session.run["start_s"] = self._warm_up.created_s - self._begun_wall_s
        return session

    def _read(self, **options: Any) -> Session | None:
        """Read what there is; None, and a warning now and then, if that cannot be done: no reason to end a run."""
        try:
            session = read_live(self._folder.path, with_history=False, **options)  # which comes from here
            session.merge(self._lost.session())
            return session
        except SessionError as error:
            self._num_unreadable += 1
            if is_logged(self._num_unreadable):
                logger.warning("Figures of this moment are missing: %s", error)
            return None

    def write_timers(self) -> None:
        """Write the timers and gauges of all processes, and gauges over time; a full disk is no reason to end a run.

        With `keeps_earlier` nothing is written.
        """
        session = self._read(with_events=False)
        if session is None:
            return
        self._note(session)
        if self.keeps_earlier:
            return
        workers = [worker for record in session.processes for worker in worker_timers(record)]
        # Without record files at least what this process has recorded.
        root = self._root() if workers else self._own_timers()
        document = make_run_document(root, {}, self._metadata(), workers)
        try:
            write_document(document, self._folder.timers)
            self._folder.history.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(self._folder.history) as partial, partial.open("w", encoding="utf-8") as file:
                file.writelines(to_json({**self._over_time(), "history_start_s": lambda: self._begun_wall_s}))
        except OSError as error:
            logger.warning("Cannot write the timers: %s", error)

    def add_up_lost(self, component: str) -> None:
        """Keep the record files of a component's latest lost processes alone; earlier ones count in all figures."""
        self._lost.add_up(component)

    def _metadata(self) -> dict[str, str]:
        """Return that of this process with what it was when the run began: an environment in it may reset its timers.

        What was noted since then is there, too; of a key that was noted twice the later value.
        """
        start = {START_TIME: self._begun_metadata[START_TIME]}
        return {**self._begun_metadata, **get_thread_stacks().current().metadata, **start}

    def _root(self) -> TimerNode:
        """Return a node that has been open since the run began, to merge others into."""
        tree = TreeNode()
        tree.statistics.add([round((time.monotonic() - self._begun_s) * NS_PER_S)])
        return TimerNode.from_tree(tree)

    def _own_timers(self) -> TimerNode:
        """Return what this process has recorded since the run began."""
        tree = get_timer_root().to_tree()
        if tree.statistics.total_ns >= self._begun_timers.statistics.total_ns:  # else they were reset
            take_off(tree, self._begun_timers)
        return TimerNode.from_tree(tree)

    def _note(self, session: Session) -> None:
        """Keep what the gauges of this moment say for the report."""
        earlier, self._noted = self._noted, {process_identity(record): record.gauges for record in session.processes}
        recent = [_own_figures(record, earlier.get(process_identity(record), {})) for record in _present(session)]
        told = {name: [value for gauges in recent for key, value in gauges if key == name] for name in _HISTORY}
        self.note({name: _HISTORY[name](values) for name, values in told.items() if values})

    def take_reading(self, figures: Mapping[str, float]) -> None:
        """Note what all processes have recorded by now, unless that was done a moment ago; call it once a second.

        Args:
            figures: of the whole run, which count up, by name.
        """
        begin_s, begin_cpu_s = time.monotonic(), time.thread_time()
        if begin_s < self._next_reading_s:
            return
        try:
            session = read_live(self._folder.path, with_events=False, with_histograms=False, with_history=False)
        except SessionError:  # told of where figures are written
            return
        self._readings.add(begin_s - self._begun_s, figures, _present(session))
        cost_s = time.thread_time() - begin_cpu_s  # not how long it took: processors may be short
        self._next_reading_s = begin_s + max(0.9 * _READING_INTERVAL_S, cost_s / _MOST_OF_A_CORE)

    def latest(self, figure: str) -> float | None:
        """Return the last point of a figure over time; None: there is none."""
        return self._history.latest(figure)

    def note(self, figures: Mapping[str, float]) -> None:
        """Keep figures of this moment, by name, for the course of the run in its report."""
        self._history.add(time.monotonic() - self._begun_s, figures)

    def _history_facts(self) -> dict[str, Any]:
        return {"history_start_s": self._begun_wall_s, **evaluated(self._over_time())}

    def _over_time(self) -> dict[str, Columns]:
        return {"history": self._history.columns(), "readings": self._readings.columns()}

    def follow_timeline(self) -> None:
        """Go on with the timeline that is wanted of a window of the run; call it several times a second."""
        if self._window is None:
            return
        try:
            self._follow(*self._window)
        except OSError as error:  # no room for what is followed
            logger.warning("The timeline is given up: %s", error)
            self._window = self._timeline = None

    def _follow(self, start_s: float, length_s: float) -> None:
        passed_s = time.monotonic() - self._begun_s
        if self._timeline is None and passed_s >= start_s:
            self._timeline = TimelineRecorder(self._folder.path)
        elif self._timeline is not None:
            self._timeline.poll()
            if passed_s >= start_s + length_s:
                self.end_timeline()

    def end_timeline(self) -> None:
        """End the timeline's window, which is over or the run is; what it has is written meanwhile.

        As long as nothing was trained it is not written: there may be a timeline of the earlier run.
        """
        if self.keeps_earlier and self._timeline is not None:
            logger.warning(
                "There is no timeline: nothing was trained before its window ended; what the earlier run recorded stays"
            )
            self._timeline.close()
            self._window = self._timeline = None
        else:
            self._finish_timeline()

    def _finish_timeline(self) -> None:
        window, timeline = self._window, self._timeline
        self._window = self._timeline = None
        if timeline is None and window is not None:
            logger.warning("There is no timeline: the run ended before second %g, when its window begins", window[0])
        if timeline is not None:
            self._writing = threading.Thread(target=self._write_timeline, args=(timeline,), name="timeline")
            self._writing.start()

    def _write_timeline(self, timeline: TimelineRecorder) -> None:
        path = self._folder.timeline
        try:
            capture = timeline.finish(path)
        except Exception as error:  # in a thread of its own, where nobody else would hear of it
            logger.warning("Cannot write the timeline: %s", error)
            return
        logger.info("Wrote a timeline of %d passes through blocks: %s", capture.num_passes, path)
        for process, num_lost in capture.num_lost.items():
            logger.warning("The timeline lacks %d events of %s: give more --flight_recorder_mb", num_lost, process)

    def write_session(self, facts: Mapping[str, Any], steady: Session, *, is_clean: bool) -> Session:
        """Put all recordings into the run's session; then the record files of a run that ended well are not needed.

        A run that has trained nothing leaves those of the earlier one that it was to go on with, and none of its own,
        however it ended.

        Args:
            facts: about the run.
            steady: its steady part, which gets a file of its own.
            is_clean: whether it ended as it should; else the files stay, as evidence, but with `keeps_earlier`.
        """
        if self._writing is not None:
            self._writing.join()
        session = self._read(latest_s=KEPT_EVENTS_S)
        if session is None:
            session = Session(created_s=time.time(), problems=[f"the record files in {self._live.path}"])
        session.run |= {**facts, **self._history_facts()}
        if self.keeps_earlier:
            self.put_earlier_back()
            return session
        try:
            self._folder.profile.mkdir(exist_ok=True)
            steady.save(self._folder.steady)
            session.save(self._folder.session)
        except OSError as error:
            logger.warning("Cannot save the session: %s; what it has is in %s", error, self._live.path)
            return session
        if is_clean and not session.problems:
            self._remove_record_files()
            self._folder.history.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._live.path.rmdir()
        return session


def _present(session: Session) -> list[ProcessRecord]:
    """Return the processes of a run without those that were killed or have a successor: these have nothing any more."""
    latest = {record.name: record for record in session.processes if record.state != "gone"}
    return list(latest.values())


def _own_figures(record: ProcessRecord, earlier: Mapping[str, GaugeNode]) -> list[tuple[str, float]]:
    """Return what components and the process itself tell, by name; an environment may name gauges of its own alike."""
    owners = record.gauge_owners()
    return [
        (owners[name][1], gauge.value)
        for name, gauge in with_recent_means(record.gauges, earlier).items()
        if gauge.count and (owners[name][0] or name in PROCESS_GAUGES)
    ]
