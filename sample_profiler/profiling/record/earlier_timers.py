"""What the timers of a process had recorded when its record file began: told in the file, and taken off by its readers.

Timers belong to the process: code that uses nothing else asks them for all that there ever was, and a Timing cannot
begin anew while blocks in it are open. So one that a file shows goes on as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from sample_profiler.errors import TimingError
from sample_profiler.profiling.tree.statistics import Statistics, bucket_bounds_ns
from sample_profiler.profiling.tree.tree import TreeNode

__all__ = ["EARLIER_TIMERS", "read_earlier_timers", "take_off"]

EARLIER_TIMERS = "earlier_timers"
"""The key of a file's metadata under which that is."""


def read_earlier_timers(metadata: Mapping[str, str]) -> dict[int, TreeNode]:
    """Return those trees by the times when they began.

    Raises:
        ValueError: that is not in the metadata as `describe_earlier_timers` writes it.
    """
    trees = json.loads(metadata.get(EARLIER_TIMERS, "{}"))
    if not isinstance(trees, dict):
        raise ValueError(f"the {EARLIER_TIMERS} are no JSON object")
    try:
        return {int(began_ns): TreeNode.from_dict(tree) for began_ns, tree in trees.items()}
    except TimingError as error:
        raise ValueError(f"the {EARLIER_TIMERS} are none: {error}") from error


def take_off(tree: TreeNode, earlier: TreeNode) -> None:
    """Leave in a tree what it has recorded since it was like `earlier`.

    A pass that was open then counts with its time since; as a pass of its own where there is no other.
    """
    stack = [(tree, earlier)]
    while stack:
        node, former = stack.pop()
        _subtract(node.statistics, former.statistics)
        for key, before in former.children.items():
            if key in node.children:
                stack.append((node.children[key], before))
    _prune(tree)


def _subtract(mine: Statistics, former: Statistics) -> None:
    mine.total_ns = max(0, mine.total_ns - former.total_ns)
    mine.count = max(mine.count - former.count, int(mine.total_ns > 0))
    left = {index: count - former.histogram.get(index, 0) for index, count in mine.histogram.items()}
    mine.histogram = {index: count for index, count in left.items() if count > 0}
    if former.count and mine.histogram:  # as near as the buckets tell
        mine.min_ns = max(mine.min_ns, bucket_bounds_ns(min(mine.histogram))[0])
        mine.max_ns = min(mine.max_ns, bucket_bounds_ns(max(mine.histogram))[1] - 1)


def _prune(tree: TreeNode) -> None:
    """Leave out blocks that nothing is left of; nothing is left inside of them, either."""
    for node in list(tree.walk()):
        node.children = {key: child for key, child in node.children.items() if child.statistics.count}
