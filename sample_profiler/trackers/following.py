"""Owns how a tracker is told of a run: of what is in its files, as it is written there, and of its results at the end.

What was told is noted in the run's folder. So whoever comes after, because the run was resumed or because a tracker's
process was lost, goes on where that one was.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sample_profiler.repeated_warnings import is_logged
from sample_profiler.run_folder import RunFolder
from sample_profiler.trackers.event_files import read_points
from sample_profiler.trackers.results import flags_to_tell, write_results
from sample_profiler.trackers.state import TrackingState
from sample_profiler.trackers.tracker import Point, TrackedRun, Tracker

__all__ = ["Follower"]

_INTERVAL_S = 2.0
_LONGEST_S = 60.0  # between two attempts to reach a tracker
_LONGEST_NAME = 80  # Weights & Biases takes 128 characters


class Follower:
    """Tells a tracker of a run.

    Args:
        folder: of the run.
        name: of the tracker.
        make: makes it, of the run and a folder for files.
        inform: is told where the run can be seen.
        warn: is told what is in the way.
    """

    def __init__(
        self,
        folder: RunFolder,
        name: str,
        make: Callable[[TrackedRun, Path], Tracker],
        inform: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._make = make
        self._inform = inform
        self._warn = warn
        self._state_path = folder.tracking_state(name)
        self._files = folder.tracking_files(name)
        # Of whichever attempt succeeds: one that seemed to fail may have begun a run.
        name_of_run = re.sub(r"[^A-Za-z0-9_.-]", "_", folder.path.name)[-_LONGEST_NAME:]
        self._new_id = f"{name_of_run}_{uuid.uuid4().hex[:8]}"
        self._tracker: Tracker | None = None
        self._state = TrackingState()
        self._num_failed = 0

    def follow(self, is_over: Callable[[float], bool]) -> bool:
        """Tell the tracker of the run until that is over, and return whether it knows all of it.

        Args:
            is_over: waits for the end of the run for so many seconds, and tells whether it is over.
        """
        shutil.rmtree(self._files, ignore_errors=True)  # of a process that was killed
        wait_s = 0.0
        try:
            self._files.mkdir(parents=True)
            while not is_over(wait_s):
                wait_s = _INTERVAL_S if self._try(self._tell_new) else min(2 * wait_s + _INTERVAL_S, _LONGEST_S)
            return self._try(self._tell_new) and self._try(self._tell_results)
        finally:
            shutil.rmtree(self._files, ignore_errors=True)

    def _try(self, tell: Callable[[], None]) -> bool:
        try:
            tell()
        except Exception as error:  # of a library, or of a server far away
            self._num_failed += 1
            if is_logged(self._num_failed):
                self._warn(f"{type(error).__name__}: {error}")
            return False
        return True

    def _begin(self) -> Tracker:
        """Return the tracker, which is made when it is reached for the first time."""
        if self._tracker is None:
            self._state = TrackingState.load(self._state_path)
            flags, known = flags_to_tell(self._folder), self._state
            run = TrackedRun(str(flags["experiment"]), self._new_id, known.run_id, known.num_points, flags)
            self._tracker = self._make(run, self._files)
            self._state.run_id = self._tracker.run_id
            self._state.save(self._state_path)
            self._inform(self._tracker.place)
        return self._tracker

    def _tell_new(self) -> None:
        tracker = self._begin()
        num_policies = int(self._folder.flag_values()["num_policies"])
        for policy in range(num_policies):
            prefix = f"policy_{policy}/" if num_policies > 1 else ""
            for path in self._folder.event_files_of(policy):
                self._tell_new_of(tracker, path, f"{policy}/{path.name}", prefix)

    def _tell_new_of(self, tracker: Tracker, path: Path, name: str, prefix: str) -> None:
        """Tell the tracker of what is new in a file."""
        start = self._state.positions.get(name, 0)
        while (found := read_points(path, start))[1] != start:
            points, start = found
            tracker.log([_prefixed(point, prefix) for point in points])
            self._state.num_points += len(points)
            self._state.positions[name] = start
            self._state.save(self._state_path)

    def _tell_results(self) -> None:
        tracker = self._begin()
        paths, outcome = write_results(self._folder, self._files)
        tracker.add_files(paths)
        tracker.close(outcome)


def _prefixed(point: Point, prefix: str) -> Point:
    """Return a point with the names that its figures have among those of several policies."""
    if not prefix:
        return point
    values = {prefix + name: value for name, value in point.values.items()}
    texts = {prefix + name: text for name, text in point.texts.items()}
    pictures = {prefix + name: picture for name, picture in point.pictures.items()}
    return replace(point, values=values, texts=texts, pictures=pictures)
