"""Owns the way from a run's folder to its report."""

from __future__ import annotations

import contextlib
from pathlib import Path

from sample_profiler.analysis.facts import RunFacts
from sample_profiler.analysis.steady import facts_of_run
from sample_profiler.errors import SessionError
from sample_profiler.profiling.session.session import Session, read_session
from sample_profiler.reports.run_report.report import RunReport, make_report
from sample_profiler.run_folder import RunFolder, other_ranks

__all__ = ["load_report"]


def load_report(run_dir: Path, *, with_events: bool = True) -> RunReport:
    """Read a run's report from its files.

    Args:
        run_dir: of the run.
        with_events: whether what is told of single events is wanted, too; of a run that goes on it never is.

    Raises:
        SessionError: the folder is no run's.
    """
    session, steady = _read(run_dir, with_events=with_events)
    return make_report(run_dir.resolve().name, session, steady, _read_other_ranks(run_dir))


def _read(run_dir: Path, *, with_events: bool) -> tuple[Session, Session | None]:
    # Of a run that goes on, these would be all that its processes hold: hundreds of megabytes where they are many.
    session = read_session(run_dir, with_events=with_events and _is_over(run_dir))
    steady: Session | None = None
    if (path := RunFolder(run_dir).steady).exists():
        steady = Session.load(path, with_events=False)
    return session, steady


def _read_other_ranks(run_dir: Path) -> dict[int, RunFacts]:
    """Return the facts of other ranks, as far as they can be read."""
    found = {}
    for rank, folder in other_ranks(RunFolder(run_dir)):
        with contextlib.suppress(SessionError):  # it may have had no time to record anything
            found[rank] = facts_of_run(*_read(folder.path, with_events=False))
    return found


def _is_over(run_dir: Path) -> bool:
    try:
        return RunFolder(run_dir).session.exists()
    except OSError:  # told of where it is read
        return False
