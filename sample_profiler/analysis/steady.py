"""Which part of a run its facts are about: the steady one, or all of it where it was over before that began."""

from __future__ import annotations

from dataclasses import replace

from sample_profiler.analysis.accounts import START_BLOCKS
from sample_profiler.analysis.facts import RunFacts, StartSteps, run_facts
from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.vocabulary import (
    ENV_RESET,
    ENV_STEP,
    MAIN_LOOP,
)

__all__ = ["facts_of_run"]

_NOTHING = TreeNode()
_COMPILE = "compile_simulator"  # in the first reset, of families whose simulators are compiled


def facts_of_run(session: Session, steady: Session | None) -> RunFacts:
    """Return the facts that a run is judged by.

    Args:
        session: of the whole run.
        steady: of its steady part, without processes where it was over before that began; None: not known, as of
            a run that goes on or was killed. In both of these cases the facts are of the whole run.
    """
    if steady is not None and steady.processes:
        return replace(run_facts(steady), start=_start_steps(session, steady))
    facts = run_facts(session)
    if steady is None:
        return facts
    start = _start_steps(session, steady)
    return replace(facts, is_steady=False, start_s=min(facts.seconds, _start_s(session)), start=start)


def _start_steps(session: Session, steady: Session) -> StartSteps:
    """Return what was stepped before the steady part, by the worker that stepped and reset for longest then."""
    in_steady = {name: _rollout_steps(record, name) for record in steady.processes for name in record.components}
    found = []
    for record in session.processes:
        for name in record.components:
            reset = record.trees[name].children.get(ENV_RESET, _NOTHING)
            first = reset.children.get(ENV_STEP, _NOTHING).statistics
            later, after = _rollout_steps(record, name), in_steady.get(name, _NOTHING)
            compile_ns = reset.children.get(_COMPILE, _NOTHING).statistics.total_ns
            resets_ns = reset.statistics.total_ns - first.total_ns - compile_ns + _resets_ns(later) - _resets_ns(after)
            found.append(
                StartSteps(
                    first.count,
                    first.total_ns / NS_PER_S,
                    max(0, later.statistics.count - after.statistics.count),
                    max(0, later.statistics.total_ns - after.statistics.total_ns) / NS_PER_S,
                    max(0, resets_ns) / NS_PER_S,
                )
            )
    return max(found, key=lambda steps: steps.seconds + steps.resets_s, default=StartSteps())


def _rollout_steps(record: ProcessRecord, component: str) -> TreeNode:
    root = record.trees[component]
    return root.children.get(MAIN_LOOP, root).children.get(ENV_STEP, _NOTHING)


def _resets_ns(steps: TreeNode) -> int:
    return steps.children.get(ENV_RESET, _NOTHING).statistics.total_ns


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
    start_ns = sum(block.statistics.total_ns for key, block in root.children.items() if key in START_BLOCKS)
    return begin_ns, begin_ns + start_ns
