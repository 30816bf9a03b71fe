"""A Session: all that is known of a run, as plain data. Every analysis and report reads Sessions only.

Where it comes from makes no difference: record files of a run that goes on, hangs or was killed; the file that a run
leaves behind; or a script of your own (see `profile_session`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sample_profiler.errors import RecordError, SessionError
from sample_profiler.files import read_small_text, written_whole
from sample_profiler.profiling.process.machine import describe_machine, host_name
from sample_profiler.profiling.record.events import Events
from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.profiling.session.checks import check_run
from sample_profiler.profiling.session.documents import session_from_dict, session_to_dict
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.run_folder import RunFolder

if TYPE_CHECKING:
    from sample_profiler.profiling.timing import Timing

__all__ = ["Session", "profile_session", "read_live", "read_session"]

logger = logging.getLogger(__name__)

KEPT_EVENTS_S = 10.0
"""Of how many seconds before a process's end a saved session has events."""

_MOST_DIGITS = 7  # of a number of cores
_MOST_BYTES = 2 << 30  # of a saved session: events of ten seconds of hundreds of processes


@dataclass
class Session:
    """What was recorded of a run.

    Attributes:
        created_s: when it was put together, seconds since 1970.
        run: facts about the run, such as why it ended.
        machine: what it ran on; empty if not known.
        config: values of the run's flags; empty if not known.
        processes: one record each, in the order of their starts.
        problems: what could not be read, one sentence each.
    """

    created_s: float
    run: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    processes: list[ProcessRecord] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def noting_problems(self) -> Iterator[None]:
        """Add a record file that cannot be read to the problems, and go on."""
        try:
            yield
        except RecordError as error:
            self.problems.append(str(error))

    def describe_problems(self) -> list[str]:
        """Return what there was no room for, and what cannot be read, a line each: what every view of it has to say."""
        unrecorded = [problem for record in self.processes for problem in record.problems]
        return unrecorded + [f"cannot be read: {problem}" for problem in self.problems]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file; a crash leaves the old file or the new one. Of events those of the last 10 s are kept.

        Raises:
            OSError: it cannot be written.
        """
        text = json.dumps(session_to_dict(vars(self)), separators=(",", ":"))
        with written_whole(path) as partial:
            partial.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, with_events: bool = True) -> Session:
        """Return what `save` wrote, or what runs of version 0.1 left behind.

        Args:
            path: the file.
            with_events: whether the processes have their events.

        Raises:
            SessionError: it cannot be read, or is no session.
        """
        try:
            document = json.loads(read_small_text(path, _MOST_BYTES))
        except OSError as error:
            raise SessionError(
                f"{path} cannot be read: {error.strerror or error}; check the path and its permissions"
            ) from error
        except (ValueError, RecursionError) as error:
            raise SessionError(f"{path} is no session: {error}; give a session.json that a run left behind") from error
        return cls(**session_from_dict(document, source=str(path), with_events=with_events))

    def merge(self, other: Session) -> None:
        """Add the processes of another session; `other` stays as it is.

        Of a process that both have, the later reading counts. Facts that only the other one has are taken over.
        """
        ours = {_identity(record): index for index, record in enumerate(self.processes)}
        for record in other.processes:
            index = ours.get(_identity(record)) if record.pid else None
            if index is None:
                self.processes.append(record)
            elif record.read_ns > self.processes[index].read_ns:
                self.processes[index] = record
        self.processes.sort(key=_start)
        for mine, theirs in ((self.run, other.run), (self.machine, other.machine), (self.config, other.config)):
            mine |= {key: value for key, value in theirs.items() if key not in mine}
        self.problems += [problem for problem in other.problems if problem not in self.problems]
        self.created_s = max(self.created_s, other.created_s)


@contextlib.contextmanager
def profile_session(run_dir: str | os.PathLike[str], name: str = "main") -> Iterator[Timing]:
    """Record any script, by a ``with`` around its training.

    Within, ``timing`` is also what `get_timing` returns. Its blocks, and those of `sample_profiler.timers` in all
    threads, can be read from outside at any time (`read_session`, ``sample-profiler status``), also after a kill. At
    the end, however it comes, ``{run_dir}/profile/session.json`` is written. The time counts from here on.

    Args:
        run_dir: the run's folder; is made. Several processes may share one, each with a name of its own.
        name: of this process and of its tree.

    Raises:
        OSError: the record file cannot be made.
        ValueError: the name cannot be that of a file.
    """
    # Only now: who reads sessions needs no recorder.
    from sample_profiler.profiling.recording.script import ScriptRecording

    folder = RunFolder(Path(run_dir))
    recording = ScriptRecording(folder.live(), name)
    reason = "the script has left it"
    try:
        yield recording.timing
    except BaseException as error:
        reason = ": ".join(filter(None, (type(error).__name__, str(error))))
        raise
    finally:
        if recording.close():
            session = read_live(run_dir)
            session.run["reason"] = reason
            try:
                session.save(folder.session)
            except OSError as error:
                logger.warning("The session cannot be saved: %s; what it has is in %s", error, folder.live().path)


def read_session(run_dir: str | os.PathLike[str], *, with_events: bool = True, with_histograms: bool = True) -> Session:
    """Return the session of a run, whether it goes on, hangs, was killed or has ended.

    Of the record files and the saved session the one that tells of later things counts.

    Args:
        run_dir: the run's folder.
        with_events: whether to read the latest events, too.
        with_histograms: whether the statistics of record files have their histograms.

    Raises:
        SessionError: the folder is no run's, or nothing in it can be read.
    """
    with _told_what_is_unreadable(run_dir):
        return _read_session(RunFolder(Path(run_dir)), with_events, with_histograms)


def _read_session(folder: RunFolder, with_events: bool, with_histograms: bool) -> Session:
    if not folder.path.is_dir():
        raise SessionError(f"{folder.path} is no folder; give the folder of a run, {{train_dir}}/{{experiment}}")
    live = read_live(folder.path, with_events=with_events, with_histograms=with_histograms)
    if folder.session.exists() and not any(record.is_alive for record in live.processes):
        try:
            saved = Session.load(folder.session, with_events=with_events)
        except SessionError as error:
            if not live.processes:
                raise
            live.problems.append(str(error))
        else:
            if saved.created_s >= max((record.wall_ns(record.read_ns) for record in live.processes), default=0) / 1e9:
                saved.config = saved.config or live.config
                for record in saved.processes:
                    if record.is_alive:  # it wrote the session, and has ended since
                        record.state = "ended"
                return saved
    if not live.processes:
        raise SessionError(
            f"{folder.path} has nothing to read: no {folder.session.relative_to(folder.path)}, and "
            f"{live.problems[0] if live.problems else f'no record files in {folder.live().path}'}; "
            "give the folder of a run, {train_dir}/{experiment}"
        )
    return live


def read_live(
    run_dir: str | os.PathLike[str],
    *,
    with_events: bool = True,
    with_histograms: bool = True,
    with_history: bool = True,
    latest_s: float = math.inf,
) -> Session:
    """Return a session of a run's record files alone; it has no processes if there are none.

    Files that cannot be read are among its problems.

    Args:
        run_dir: as in `read_session`, with the next two.
        with_events: whether to read the latest events, too.
        with_histograms: whether the statistics have their histograms.
        with_history: whether to read the figures over its time, too.
        latest_s: of events, only those of so many seconds before the end are kept.

    Raises:
        SessionError: the folder may not be looked into.
    """
    with _told_what_is_unreadable(run_dir):
        folder = RunFolder(Path(run_dir))
        history = _read_history(folder.history) if with_history else {}
        return _read_live(folder, history, with_events, with_histograms, latest_s)


def _read_live(
    folder: RunFolder, history: dict[str, Any], with_events: bool, with_histograms: bool, latest_s: float
) -> Session:
    run = {"folder": str(folder.path.absolute()), **history}
    session = Session(created_s=time.time(), run=run, config=folder.flag_values())
    profile_dir = session.config.get("profile_dir")
    for path in folder.live(profile_dir if isinstance(profile_dir, str) else "").records():
        with session.noting_problems():
            record = read_record_file(path, with_events=with_events, with_histograms=with_histograms)
            if latest_s < math.inf:
                record.events = Events.of(record.events).since(record.read_ns - round(latest_s * NS_PER_S))
            session.processes.append(record)
    session.processes.sort(key=_start)
    if any(record.host == host_name() for record in session.processes):
        session.machine = describe_machine() | _cores_of(session.processes)
    return session


def _cores_of(records: Sequence[ProcessRecord]) -> dict[str, int]:
    """Return how many cores processes may use, as they say: whoever reads may use more, or fewer."""
    told = [record.metadata.get("num_cpus", "") for record in records]
    known = [int(text) for text in told if text.isdecimal() and len(text) <= _MOST_DIGITS and int(text)]
    return {"num_cpus": max(known)} if known else {}


@contextlib.contextmanager
def _told_what_is_unreadable(run_dir: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # somebody else's folder, say
        raise SessionError(
            f"{error.filename or run_dir} cannot be read: {error.strerror or error}; check the path and its permissions"
        ) from error


def _read_history(path: Path) -> dict[str, Any]:
    """Return figures over the time of a run that goes on or was killed, as facts about it; none if they are no such."""
    try:
        document = json.loads(read_small_text(path))
        facts = {name: document[name] for name in ("history_start_s", "history")}
        facts |= {name: document[name] for name in ("readings",) if name in document}
        check_run(facts)
        return facts
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return {}


def _identity(record: ProcessRecord) -> tuple[str, int, str, int]:
    return record.host, record.pid, record.name, record.start_anchor.wall_ns


def _start(record: ProcessRecord) -> tuple[int, str]:
    return record.wall_ns(record.process_started_ns), record.name
