"""Owns the Timing trees that close the log of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sample_profiler.component_id import (
    BATCHER,
    INFERENCE_WORKER,
    LEARNER,
    ROLLOUT_WORKER,
    RUNNER,
    ComponentId,
    rollout_worker_index,
)
from sample_profiler.profiling.record.process_record import is_timers
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.merging import merge_trees
from sample_profiler.profiling.tree.render import format_tree
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.vocabulary import ENV_STEP

__all__ = ["format_trees"]

_ORDER = (BATCHER, INFERENCE_WORKER, LEARNER)  # then others; last RolloutWorkers and the Runner


@dataclass(frozen=True)
class _Tree:
    title: str
    root: TreeNode

    def __str__(self) -> str:
        return format_tree(self.title, self.root)

    @property
    def work_s(self) -> float:
        return self.root.value_of_key_ns(ENV_STEP) / NS_PER_S if ENV_STEP in self.root.block_keys() else 0.0


def format_trees(session: Session, unrecorded: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the trees to show for a run, each a text of several lines.

    Of the RolloutWorkers these are the first, the last, the slowest (the one that spent most time stepping its
    environments), and one tree that adds up all of them. What several processes have recorded that had the place of
    one component, one after the other, is one tree.

    Args:
        session: what all processes have recorded, also those that were killed.
        unrecorded: Timing, as plain data, of components whose process had no record file, by component.
    """
    trees = _trees_of(session)
    trees |= {name: _Tree(str(plain["name"]), TreeNode.from_dict(plain)) for name, plain in unrecorded.items()}
    indices = {name: index for name in trees if (index := rollout_worker_index(name)) is not None}
    workers = sorted(indices, key=indices.__getitem__)
    others = sorted(trees.keys() - {*workers, RUNNER}, key=_rank)
    shown = [trees[name] for name in others + _shown_workers(trees, workers)]
    if len(workers) > 1:
        shown.append(_add_up(f"{ROLLOUT_WORKER} (all {len(workers)}) profile", [trees[worker] for worker in workers]))
    if RUNNER in trees:
        shown.append(trees[RUNNER])
    return list(map(str, shown))


def _trees_of(session: Session) -> dict[str, _Tree]:
    parts: dict[str, list[_Tree]] = {}
    for process in session.processes:
        for component, root in process.trees.items():
            if not is_timers(component):
                parts.setdefault(component, []).append(_Tree(process.titles.get(component, component), root))
    return {name: each[0] if len(each) == 1 else _add_up(each[-1].title, each) for name, each in parts.items()}


def _add_up(title: str, trees: Sequence[_Tree]) -> _Tree:
    root = TreeNode()
    for tree in trees:
        merge_trees(root, tree.root, keeps_kinds=True)
    return _Tree(title, root)


def _shown_workers(trees: Mapping[str, _Tree], workers: list[str]) -> list[str]:
    if not workers:
        return []
    slowest = max(workers, key=lambda name: trees[name].work_s)
    shown = {workers[0], workers[-1], slowest}
    return [worker for worker in workers if worker in shown]


def _rank(name: str) -> tuple[int, str]:
    kind = ComponentId.parse(name).kind
    return (_ORDER.index(kind) if kind in _ORDER else len(_ORDER), name)
