"""Which part of a run its facts are about: the steady one, or all of it where it was over before that began."""

from __future__ import annotations

from dataclasses import replace

from sample_profiler.analysis.facts import RunFacts, run_facts
from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.vocabulary import (
    DECORRELATE,
    ENV_RESET,
    ENV_STEP,
    LOAD_CHECKPOINT,
    MAKE_ENV,
    MAKE_ENVS,
    MAKE_INFERENCE,
)

__all__ = ["facts_of_run"]

_START_BLOCKS = frozenset({"start_up", MAKE_ENVS, MAKE_ENV, MAKE_INFERENCE, ENV_RESET, DECORRELATE, LOAD_CHECKPOINT})
"""What components do before they take part in the run, at the top of their trees."""


def facts_of_run(session: Session, steady: Session | None) -> RunFacts:
    """Return the facts that a run is judged by.

    Args:
        session: of the whole run.
        steady: of its steady part, without processes where it was over before that began; None: not known, as of
            a run that goes on or was killed. In both of these cases the facts are of the whole run.
    """
    has_steady = steady is not None and bool(steady.processes)
    facts = run_facts(steady if steady is not None and has_steady else session)
    seconds, number = _start_steps(session)
    facts = replace(facts, start_steps=number, start_steps_s=seconds)
    if steady is None or has_steady:
        return facts
    return replace(facts, is_steady=False, start_s=min(facts.seconds, _start_s(session)))


def _start_steps(session: Session) -> tuple[float, int]:
    """Return the seconds that environments of a worker stepped before its first rollout, at most, and how often."""
    resets = (record.trees[name].children.get(ENV_RESET) for record in session.processes for name in record.components)
    steps = (reset.children.get(ENV_STEP) for reset in resets if reset is not None)
    found = (block.statistics for block in steps if block is not None)
    return max(((each.total_ns / NS_PER_S, each.count) for each in found), default=(0.0, 0))


def _start_s(session: Session) -> float:
    """Return when the last component was ready, in seconds since the run began: with the first of their roots.

    Not with the first process: that of the Runner may have done other things for hours before.
    """
    spans_ns = [_start_span_ns(record, name) for record in session.processes for name in record.components]
    first_ns = min((begin_ns for begin_ns, _ in spans_ns), default=0)
    return max((ready_ns - first_ns for _, ready_ns in spans_ns), default=0) / NS_PER_S


def _start_span_ns(record: ProcessRecord, component: str) -> tuple[int, int]:
    """Return when a component began and when it was ready, on the monotonic clock."""
    root = record.trees[component]
    begin_ns = record.read_ns - root.statistics.total_ns
    start_ns = sum(block.statistics.total_ns for key, block in root.children.items() if key in _START_BLOCKS)
    return begin_ns, begin_ns + start_ns
