"""Owns how the sessions of several ranks, which train one policy together, become one: by names, and on one clock."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sample_profiler.component_id import name_in_rank
from sample_profiler.errors import SessionError
from sample_profiler.profiling.record.events import Events
from sample_profiler.profiling.record.process_record import Anchor, ProcessRecord
from sample_profiler.profiling.session.session import Session, read_session
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.run_folder import RunFolder, other_ranks
from sample_profiler.vocabulary import CLOCK_ERROR_S, CLOCK_OFFSET_S

__all__ = ["read_all_ranks"]


def read_all_ranks(
    run_dir: str | os.PathLike[str], *, with_events: bool = True, with_histograms: bool = True
) -> Session:
    """Return the session of a run, with the processes of all other ranks where it is the first of several.

    Components of others are called ``rank 1 Learner_0`` and the like. Processes of one machine have one clock; of
    others, what their Learners have found out of theirs is taken into account, and said.

    Args:
        run_dir: the run's folder; those of other ranks are beside it.
        with_events: whether to read the latest events, too.
        with_histograms: whether the statistics of record files have their histograms.

    Raises:
        SessionError: the folder is no run's, or nothing in it can be read. What is wrong with the folder of another
            rank is among the session's problems.
    """
    session = read_session(run_dir, with_events=with_events, with_histograms=with_histograms)
    host = session.processes[0].host if session.processes else ""
    for rank, folder in other_ranks(RunFolder(Path(run_dir))):
        try:
            other = read_session(folder.path, with_events=with_events, with_histograms=with_histograms)
        except SessionError as error:
            session.problems.append(f"rank {rank}: {error}")
            continue
        offset_s, problem = _offset(other.processes, host)
        session.problems += [f"rank {rank}: {text}" for text in (*other.problems, problem) if text]
        session.processes += [_of_rank(record, rank, round(offset_s * NS_PER_S)) for record in other.processes]
    return session


def _offset(records: Sequence[ProcessRecord], host: str) -> tuple[float, str]:
    """Return how many seconds a rank's clock is ahead, and what has to be said of that; empty: nothing."""
    if not records or records[0].host == host:
        return 0.0, ""
    known = [
        (record.gauges[f"{component}/{CLOCK_ERROR_S}"].value, record.gauges[f"{component}/{CLOCK_OFFSET_S}"].value)
        for record in records
        for component in record.components
        if f"{component}/{CLOCK_ERROR_S}" in record.gauges and f"{component}/{CLOCK_OFFSET_S}" in record.gauges
    ]
    error_s, offset_s = min(known, default=(math.inf, 0.0))
    if not math.isfinite(error_s + offset_s):
        return 0.0, f"its machine ({records[0].host}) has a clock of its own, of which nothing is known"
    return offset_s, f"its moments may be off by {1000 * error_s:.2f} ms: its machine has a clock of its own"


def _of_rank(record: ProcessRecord, rank: int, ahead_ns: int) -> ProcessRecord:
    """Return the record of another rank's process, named so, on the first one's clock."""
    names = {component: name_in_rank(component, rank) for component in record.components}

    def rename_gauge(name: str) -> str:
        owner, slash, short = name.partition("/")
        return f"{names[owner]}/{short}" if slash and owner in names else name

    def moved(anchor: Anchor) -> Anchor:
        return anchor._replace(monotonic_ns=anchor.monotonic_ns - ahead_ns)

    return replace(
        record,
        name=name_in_rank(record.name, rank),
        rank=rank,
        process_started_ns=record.process_started_ns - ahead_ns,
        read_ns=record.read_ns - ahead_ns,
        start_anchor=moved(record.start_anchor),
        end_anchor=None if record.end_anchor is None else moved(record.end_anchor),
        trees={names.get(component, component): tree for component, tree in record.trees.items()},
        titles={names.get(component, component): title for component, title in record.titles.items()},
        gauges={rename_gauge(name): gauge for name, gauge in record.gauges.items()},
        events=Events.of(record.events).moved(-ahead_ns),
        paths=[(names.get(path[0], path[0]), *path[1:]) if path else path for path in record.paths],
        open_blocks=[
            block._replace(component=names.get(block.component, block.component), since_ns=block.since_ns - ahead_ns)
            for block in record.open_blocks
        ],
    )
