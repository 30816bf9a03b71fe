"""Owns what the Runner makes of its run's record files: the timers' document while it runs, and the session at its end.

All of it is read from the files, as somebody outside of the run would: what a killed process has recorded is there, and
no component spends time on telling.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sample_profiler.profiling.session import Session, live_folder, read_live, session_path
from sample_profiler.profiling.timer_documents import make_run_document, worker_timers, write_document
from sample_profiler.profiling.timer_nodes import TimerNode
from sample_profiler.profiling.timer_stacks import get_thread_stacks
from sample_profiler.profiling.timers import get_timer_root

__all__ = ["RunRecords"]

logger = logging.getLogger(__name__)


class RunRecords:
    """The recordings of a run.

    Args:
        run_folder: of the run.
    """

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder
        self._timers_path = run_folder / "summary" / f"{run_folder.name}_timers.json"

    def clear(self) -> None:
        """Remove what an earlier run in the same folder has left."""
        for path in live_folder(self._folder).glob("*.rec"):
            path.unlink(missing_ok=True)

    def write_timers(self) -> None:
        """Write the timers and gauges of all processes; a full disk is no reason to end a run."""
        session = read_live(self._folder, with_events=False)
        workers = [worker for record in session.processes for worker in worker_timers(record)]
        # Without record files at least what this process has recorded.
        root = TimerNode() if workers else get_timer_root()
        document = make_run_document(root, {}, get_thread_stacks().current().metadata, workers)
        try:
            write_document(document, self._timers_path)
        except OSError as error:
            logger.warning("Cannot write the timers: %s", error)

    def write_session(self, facts: Mapping[str, Any], *, is_clean: bool) -> Session:
        """Put all recordings into the run's session; then the record files of a run that ended well are not needed.

        Args:
            facts: about the run.
            is_clean: whether it ended as it should; else the files stay, as evidence.
        """
        session = read_live(self._folder)
        session.run.update(facts)
        path = session_path(self._folder)
        try:
            path.parent.mkdir(exist_ok=True)
            session.save(path)
        except OSError as error:
            logger.warning("Cannot save the session: %s; what it has is in %s", error, live_folder(self._folder))
            return session
        if is_clean and not session.problems:
            self.clear()
        return session
