"""Owns what a report of a run has to say, as plain data: the page, the text and the JSON say the same."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from sample_profiler.analysis.accounts import ComponentAccount, accounts
from sample_profiler.analysis.device_use import DeviceUse, device_use
from sample_profiler.analysis.facts import RunFacts
from sample_profiler.analysis.learning.verdict import LearningProblem, judge_learning
from sample_profiler.analysis.lives import Life, find_lives
from sample_profiler.analysis.steady import facts_of_run
from sample_profiler.analysis.trends.trend import Trend
from sample_profiler.analysis.trends.trends import find_trends
from sample_profiler.analysis.verdict import Verdict, judge
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.statistics import NS_PER_S, DeviceStatistics, Statistics
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.reports.sections.distance import describe_distance, is_running
from sample_profiler.reports.sections.history import read_history
from sample_profiler.reports.sections.learning import learning_to_dicts
from sample_profiler.reports.sections.lives import lives_to_dict
from sample_profiler.reports.sections.memory import MemoryCourse, memory_courses, memory_to_dicts
from sample_profiler.reports.sections.ranks import RankFigures, rank_figures
from sample_profiler.reports.sections.tables import format_duration
from sample_profiler.reports.sections.trends import trends_to_dicts
from sample_profiler.reports.sections.verdict import verdict_to_dict
from sample_profiler.reports.sections.workers import WorkerFigures, worker_figures
from sample_profiler.vocabulary import MAIN_LOOP, START_UP, WAIT

__all__ = [
    *("BlockFigures", "PassFigures", "RunReport", "describe_failure", "describe_run", "make_report", "report_to_dict"),
]

logger = logging.getLogger(__name__)

_Found = TypeVar("_Found")

_NUM_SLOWEST = 15
_MOST_OF_FAILURE = 300  # characters
_MOST_LEVELS = 100  # of a tree as JSON, two levels of that each: its readers go 200 to 1,000 deep; recursion makes more
_NO_SINGLE_PASS = (WAIT, START_UP)


@dataclass(frozen=True)
class PassFigures:
    """The passes of a block.

    Attributes:
        total_s: how long they took together.
        count: how many there were.
        mean_s, p50_s, p99_s, max_s: of how long they took; 0 where there were none.
        slowest_percent_share, slowest_permille_share: of the time, what the slowest hundredth and thousandth take.
    """

    total_s: float
    count: int
    mean_s: float
    p50_s: float
    p99_s: float
    max_s: float
    slowest_percent_share: float
    slowest_permille_share: float

    @classmethod
    def of(cls, statistics: Statistics) -> PassFigures:
        """Return the figures of a node's passes."""
        count, total_s = statistics.count, statistics.total_ns / NS_PER_S
        return cls(
            total_s=total_s,
            count=count,
            mean_s=total_s / count if count else 0.0,
            p50_s=statistics.quantile_ns(0.5) / NS_PER_S if count else 0.0,
            p99_s=statistics.quantile_ns(0.99) / NS_PER_S if count else 0.0,
            max_s=statistics.max_ns / NS_PER_S,
            slowest_percent_share=statistics.share_of_slowest(0.01),
            slowest_permille_share=statistics.share_of_slowest(0.001),
        )


@dataclass(frozen=True)
class BlockFigures:
    """One block of a component.

    Attributes:
        key: its name.
        start, share: where it begins and how wide it is, in shares of the component's wall time; waits included.
        passes: through it.
        device: what an accelerator did for them; None: that was not measured.
        children: the blocks inside it, in the order first seen.
    """

    key: str
    start: float
    share: float
    passes: PassFigures
    device: DeviceStatistics | None
    children: list[BlockFigures] = field(default_factory=list)


@dataclass(frozen=True)
class RunReport:
    """Everything that a report shows.

    Attributes:
        name: of the run.
        session: of the whole run.
        facts: of its steady part, or of all of it where there is none.
        trees: blocks by component; timers of a process beside them, under its name and theirs.
        slowest: longest single passes: component, path, seconds; the longest first.
        other_facts: of the steady parts of other ranks that train the same policies, by rank.
    """

    name: str
    session: Session
    facts: RunFacts
    trees: dict[str, BlockFigures]
    slowest: list[tuple[str, str, float]]
    other_facts: Mapping[int, RunFacts] = field(default_factory=dict)

    @cached_property
    def ranks(self) -> list[RankFigures]:
        """The Learners of all ranks side by side; none where there is one rank alone."""
        by_rank = {0: self.facts, **self.other_facts} if self.other_facts else {}
        return [figures for rank, facts in by_rank.items() for figures in rank_figures(rank, facts)]

    @cached_property
    def verdict(self) -> Verdict:
        """On what the facts are of."""
        return judge(self.facts)

    @cached_property
    def trends(self) -> list[Trend]:
        """What changed over the time of the whole run."""
        return self._told_if_possible(find_trends)

    @cached_property
    def learning(self) -> list[LearningProblem]:
        """What keeps policies from learning."""
        return self._told_if_possible(judge_learning)

    def _told_if_possible(self, judge_run: Callable[[Session], list[_Found]]) -> list[_Found]:
        """Return what a judge says of the run; nothing if it fails, which is no reason to lose the rest of a report."""
        try:
            return judge_run(self.session)
        except Exception:
            logger.exception("What %s would say of the run is left out", judge_run.__name__)
            return []

    @cached_property
    def lives(self) -> list[Life]:
        """The trajectories of the latest seconds; none where the session was read without events."""
        return find_lives(self.session)

    @cached_property
    def memory(self) -> list[MemoryCourse]:
        """Of each process over time."""
        return memory_courses(self.session)

    @cached_property
    def accounts(self) -> list[ComponentAccount]:
        """Of the whole run."""
        return accounts(self.session)

    @cached_property
    def device_use(self) -> DeviceUse | None:
        """What the accelerator was used for, in the time that the facts are of; None: there is none."""
        return device_use(self.facts.components)

    @cached_property
    def workers(self) -> list[WorkerFigures]:
        """The RolloutWorkers side by side, in the time that the facts are of."""
        return worker_figures(self.facts.workers)

    @cached_property
    def history(self) -> dict[str, list[tuple[float, float]]]:
        """Figures over time, by name: pairs of seconds since the start and value."""
        return read_history(self.session)

    @property
    def problems(self) -> list[str]:
        """What could not be read, and what there was no room for, one sentence each."""
        return self.session.describe_problems()


def make_report(
    name: str, session: Session, steady: Session | None, other_facts: Mapping[int, RunFacts] | None = None
) -> RunReport:
    """Put a report together.

    Args:
        name: of the run.
        session: of the whole run.
        steady: of its steady part, without processes where it was over before that began; None: there is none, as of a
            run that was killed.
        other_facts: of other ranks that train the same policies, by rank; None: it is alone, or they have not ended.
    """
    facts = facts_of_run(session, steady)
    trees: dict[str, BlockFigures] = {}
    slowest: list[tuple[str, str, float]] = []
    for record in session.processes:
        for tree in (*record.components, *record.timers):
            component = tree if tree in record.components else f"{record.name} {tree}"
            root = record.trees[tree]
            trees[component] = _figures(root, 0.0, max(1, root.statistics.total_ns))
            slowest += _passes(component, root)
    slowest.sort(key=lambda found: -found[2])
    return RunReport(name, session, facts, trees, slowest[:_NUM_SLOWEST], other_facts or {})


def report_to_dict(report: RunReport) -> dict[str, Any]:
    """Return JSON-ready data."""
    return {
        "run": report.name,
        "verdict": verdict_to_dict(report.verdict),
        "trends": trends_to_dicts(report.trends),
        "learning": learning_to_dicts(report.learning),
        "facts": {key: value for key, value in report.session.run.items() if key not in ("history", "readings")},
        "machine": report.session.machine,
        "config": report.session.config,
        "accounts": [
            {
                "component": each.component,
                "wall_s": each.wall_s,
                "work_s": each.work,
                "waits_s": each.waits,
                "unaccounted_s": each.unaccounted_s,
                "run_delay_s": each.run_delay_s,
                "split": None if each.split is None else asdict(each.split),
            }
            for each in report.accounts
        ],
        "trees": {component: _tree_to_dict(tree) for component, tree in report.trees.items()},
        "ranks": [asdict(each) for each in report.ranks],
        "workers": [asdict(each) for each in report.workers],
        "slowest": [{"component": c, "block": path, "seconds": seconds} for c, path, seconds in report.slowest],
        "history": {name: [list(point) for point in points] for name, points in report.history.items()},
        "memory": memory_to_dicts(report.memory),
        "trajectories": lives_to_dict(report.lives),
        "problems": report.problems,
    }


def describe_run(report: RunReport) -> str:
    """Return in one line when a run was, for how long, how fast, where, and why it ended, as far as that is known."""
    run, machine = report.session.run, report.session.machine
    parts = [time.strftime("%Y-%m-%d %H:%M", time.localtime(report.session.created_s))]
    if isinstance(run.get("elapsed_s"), int | float):
        parts.append(format_duration(run["elapsed_s"]))
    if isinstance(run.get("frames"), dict):
        parts.append(f"{sum(run['frames'].values()):,} frames")
    if isinstance(run.get("fps"), int | float):
        parts.append(f"{run['fps']:,.0f} frames/s")
    if isinstance(run.get("steady_fps"), int | float):
        parts.append(f"{run['steady_fps']:,.0f} in its steady part")
    if machine.get("num_cpus"):
        parts.append(f"{machine['num_cpus']} cores")
    if distance := describe_distance(report.session):
        parts.append(f"running {distance}" if is_running(report.session) else distance)
    if run.get("reason"):
        parts.append(str(run["reason"]))
    if failure := describe_failure(report.session):
        parts.append(failure)
    return " · ".join(parts)


def describe_failure(session: Session) -> str:
    """Return why a run failed, in one line; empty: it did not, or that is not known."""
    failure = session.run.get("failure")
    return failure.partition("\n")[0][:_MOST_OF_FAILURE] if isinstance(failure, str) else ""


def _figures(node: TreeNode, start: float, whole_ns: int) -> BlockFigures:
    children, begin = [], start
    for child in node.children.values():
        children.append(_figures(child, begin, whole_ns))
        begin += children[-1].share
    share = node.statistics.total_ns / whole_ns
    return BlockFigures(node.key, start, share, PassFigures.of(node.statistics), node.device, children)


def _passes(component: str, root: TreeNode) -> list[tuple[str, str, float]]:
    """Return the longest pass of each block that does something by itself and is more than the start of its process.

    Of a block with others inside it only if they cannot have made its longest pass so long.
    """
    found = []
    stack = [(child, child.key) for child in root.children.values()]
    while stack:
        node, path = stack.pop()
        is_work = node.key != MAIN_LOOP and not node.key.startswith(_NO_SINGLE_PASS)
        if is_work and (not node.children or node.statistics.max_ns > _longest_inside_ns(node)):
            found.append((component, path, node.statistics.max_ns / NS_PER_S))
        stack.extend((child, f"{path}/{child.key}") for child in node.children.values())
    return found


def _longest_inside_ns(node: TreeNode) -> int:
    """Return how long a pass takes in which all blocks inside take as long as ever, as often as they usually do."""
    passes = max(1, node.statistics.count)
    return sum(
        child.statistics.max_ns * max(1, -(-child.statistics.count // passes)) for child in node.children.values()
    )


def _tree_to_dict(figures: BlockFigures, level: int = 0) -> dict[str, Any]:
    plain: dict[str, Any] = {"key": figures.key, **asdict(figures.passes)}
    device = figures.device
    if device is not None:
        known = {"total_s": device.total_ns / NS_PER_S, "count": device.count}
        plain["device"] = {**known, "unresolved": device.num_unresolved}
    if figures.children and level == _MOST_LEVELS:
        return {**plain, "children": [], "num_deeper_blocks": _count_below(figures)}
    return {**plain, "children": [_tree_to_dict(child, level + 1) for child in figures.children]}


def _count_below(figures: BlockFigures) -> int:
    found = list(figures.children)
    for block in found:
        found.extend(block.children)
    return len(found)
