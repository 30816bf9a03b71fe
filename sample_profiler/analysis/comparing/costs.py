"""What a run pays for its frames: passes and seconds of each block per thousand frames, comparable between runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sample_profiler.analysis.facts import RunFacts, run_facts
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.vocabulary import MAIN_LOOP

__all__ = ["BlockCost", "RunCosts", "different_machines", "pass_costs", "run_costs"]

_MACHINE_FACTS = ("host", "system", "processor", "num_cpus", "memory_gib", "gpus", "python")
_MEMORY_TOLERANCE = 0.05  # one kernel takes a little more of the memory for itself than another


@dataclass(frozen=True)
class BlockCost:
    """Of a block of all components of a kind, per thousand frames.

    Attributes:
        passes: number of passes.
        seconds: time in it, waits inside included.
    """

    passes: float
    seconds: float


@dataclass(frozen=True)
class RunCosts:
    """What a run pays.

    Attributes:
        fps: frames trained on per second.
        facts: of the window that it is about.
        blocks: by "Learner/train/update/backward"; components of a kind are added up.
    """

    fps: float
    facts: RunFacts
    blocks: dict[str, BlockCost]


def run_costs(steady: Session) -> RunCosts | None:
    """Return the costs of a run's steady part; None if nothing was trained on in it."""
    facts = run_facts(steady)
    if not facts.fps:
        return None
    thousands = facts.fps * facts.seconds / 1000
    blocks = {
        path: BlockCost(count / thousands, total_ns / NS_PER_S / thousands)
        for path, (count, total_ns) in _totals(steady, facts).items()
    }
    return RunCosts(facts.fps, facts, blocks)


def pass_costs(session: Session) -> dict[str, float]:
    """Return how many seconds a pass through each block takes on average, by path; those with most time come first."""
    totals = sorted(_totals(session, run_facts(session)).items(), key=lambda total: -total[1][1])
    return {path: total_ns / NS_PER_S / count for path, (count, total_ns) in totals}


def different_machines(first: Session, second: Session) -> list[str]:
    """Return in what the machines of two sessions differ, one short sentence each; two of no name differ in that."""
    pairs = [(fact, _machine_fact(first, fact), _machine_fact(second, fact)) for fact in _MACHINE_FACTS]
    return [
        f"{fact} {'unknown' if one is None else one} and {'unknown' if other is None else other}"
        for fact, one, other in pairs
        if not _is_same(fact, one, other) or (fact == "host" and one is None)
    ]


def _is_same(fact: str, one: object, other: object) -> bool:
    if fact == "memory_gib" and isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_MEMORY_TOLERANCE)
    return one == other


def _machine_fact(session: Session, fact: str) -> object:
    """Return what a session says of its machine; of records that were read on another one only that one's name."""
    if fact == "host" and "host" not in session.machine:
        return ", ".join(sorted({record.host for record in session.processes if record.host})) or None
    return session.machine.get(fact)


def _totals(session: Session, facts: RunFacts) -> dict[str, tuple[int, int]]:
    """Return the passes through each block, and the nanoseconds in it; components of a kind are added up."""
    totals: dict[str, tuple[int, int]] = {}
    kinds = {load.name: load.kind for load in facts.components}
    for record in session.processes:
        for component in record.components:
            for path, node in _blocks(record.trees[component], kinds[component]):
                count, total_ns = totals.get(path, (0, 0))
                totals[path] = count + node.statistics.count, total_ns + node.statistics.total_ns
    return {path: total for path, total in totals.items() if total[0]}


def _blocks(root: TreeNode, kind: str) -> list[tuple[str, TreeNode]]:
    found = []
    stack = [(child, f"{kind}/{child.key}") for child in root.children.get(MAIN_LOOP, root).children.values()]
    while stack:
        node, path = stack.pop()
        found.append((path, node))
        stack.extend((child, f"{path}/{child.key}") for child in node.children.values())
    return found
