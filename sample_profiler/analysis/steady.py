"""Which part of a run its facts are about: the steady one, or all of it where it was over before that began."""

from __future__ import annotations

from dataclasses import replace

from sample_profiler.analysis.facts import RunFacts, run_facts
from sample_profiler.profiling.process_record import ProcessRecord
from sample_profiler.profiling.session import Session
from sample_profiler.profiling.statistics import NS_PER_S

__all__ = ["facts_of_run"]

_START_BLOCKS = frozenset({"start_up", "make_envs", "env_reset", "decorrelate", "load_checkpoint"})
"""What components do before they take part in the run, at the top of their trees."""


def facts_of_run(session: Session, steady: Session | None) -> RunFacts:
    """Return the facts that a run is judged by.

    Args:
        session: of the whole run.
        steady: of its steady part, without processes where it was over before that began; None: not known, as of
            a run that goes on or was killed. In both of these cases the facts are of the whole run.
    """
    if steady is not None and steady.processes:
        return run_facts(steady)
    facts = run_facts(session)
    if steady is None:
        return facts
    return replace(facts, is_steady=False, start_s=min(facts.seconds, _start_s(session)))


def _start_s(session: Session) -> float:
    """Return when the last component was ready, in seconds since the first process started."""
    first_ns = min((record.process_started_ns for record in session.processes), default=0)
    return max((_ready_ns(record) - first_ns for record in session.processes), default=0) / NS_PER_S


def _ready_ns(record: ProcessRecord) -> int:
    starts_ns = [
        sum(block.statistics.total_ns for key, block in record.trees[name].children.items() if key in _START_BLOCKS)
        for name in record.components
    ]
    return record.process_started_ns + max(starts_ns, default=0)
