"""`TimerNode`: what the timers show and merge. The recorder behind them is that of `Timing`."""

from __future__ import annotations

import threading
import time
from typing import Any

from sample_profiler.profiling.recorder.pure import ClockNs
from sample_profiler.profiling.timing import Timing
from sample_profiler.profiling.tree.merging import copy_tree, merge_trees
from sample_profiler.profiling.tree.statistics import NS_PER_S, Statistics
from sample_profiler.profiling.tree.tree import TreeNode

ROOT_NAME = "root"

# Readers and writers of JSON recurse: deeper nodes are left out of a document, their time stays in their parents.
_MAX_DOCUMENT_DEPTH = 200


class Recording:
    """One tree: a `Timing` that records, and beside it what it cannot take of what was merged; or plain data.

    Args:
        tree: Plain data; None: a `Timing` that records.
        clock_ns: The clock of that one.
        timing: That one, which begins now; None starts one.
    """

    __slots__ = ("_clock_ns", "_data", "_ended_ns", "_is_live", "_lock", "_start_ns", "timing")

    def __init__(
        self,
        tree: TreeNode | None = None,
        *,
        clock_ns: ClockNs = time.perf_counter_ns,
        timing: Timing | None = None,
    ) -> None:
        self._is_live = tree is None
        self._data = TreeNode() if tree is None else tree
        self._lock = threading.RLock()
        self._clock_ns = clock_ns
        self._start_ns = clock_ns()
        self._ended_ns: int | None = None
        self.timing = (timing or Timing("Timers", clock_ns=clock_ns)) if tree is None else None

    def read(self) -> TreeNode:
        """Return the tree up to now, to be looked at only."""
        with self._lock:
            if not self._is_live or self.timing is None:
                return self._data
            snapshot, ended_ns = self.timing.snapshot(), self._ended_ns
            if ended_ns is None and not self._data.children and not self._data.is_parallel:
                return snapshot
            tree = copy_tree(snapshot)
            if ended_ns is not None:
                tree.statistics = Statistics()
                tree.statistics.add([ended_ns - self._start_ns], last_end_ns=ended_ns)
            merge_trees(tree, self._data)
            return tree

    def adopt(self, path: tuple[str, ...], tree: TreeNode) -> None:
        """Add another tree below `path`. The root of a tree that records keeps its own count and total."""
        with self._lock:
            if self._is_live and not path:
                tree.statistics = Statistics()
            if self._is_live and self.timing is not None and _can_record(self.timing.snapshot(), path, tree):
                self.timing._recorder.adopt(_nest(path, tree), is_parallel=False)  # so that a record file shows it
            else:
                merge_trees(self._data, _nest(path, tree))

    @property
    def ended_ns(self) -> int | None:
        """When its thread was over, on its clock; None: it is not."""
        return self._ended_ns

    def end(self) -> None:
        """Let the root's total stay what it is now: its thread is over."""
        self._ended_ns = self._clock_ns()

    def renew(self) -> Recording:
        """Turn into plain data, and return a recording that begins now; what is open counts here with its part so far.

        A Timing that a record file shows goes on in the new one, with the slots that it has there: a program that
        resets its timers again and again takes no further ones, and what comes next is in the file at once.
        """
        with self._lock:
            self._data = self.read()
            self._is_live = False
        if self.timing is None or not self.timing.is_shown:
            return Recording(clock_ns=self._clock_ns)
        self.timing.restart()
        return Recording(clock_ns=self._clock_ns, timing=self.timing)


class TimerNode:
    """A timer under one parent: how often it ran, how long, and the timers inside it.

    A node of a stack shows what has been recorded up to the moment of asking, and its open part. After a reset it
    shows what there was until then. A pickled node arrives as data of its own.

    Without arguments, this is an empty node to merge others into.
    """

    __slots__ = ("_path", "_recording")

    def __init__(self, recording: Recording | None = None, path: tuple[str, ...] = ()) -> None:
        self._recording = Recording(TreeNode()) if recording is None else recording
        self._path = path

    @classmethod
    def from_tree(cls, tree: TreeNode) -> TimerNode:
        """Return a recording, such as ``timing.snapshot()``, as a root node; `tree` stays as it is."""
        return cls(Recording(copy_tree(tree)))

    @property
    def name(self) -> str:
        """The name of the timer, ``root`` at the root."""
        return self._path[-1] if self._path else ROOT_NAME

    @property
    def count(self) -> int:
        """The number of calls."""
        return self._read().statistics.count

    @property
    def total(self) -> float:
        """The seconds spent inside, including the timers inside it."""
        return self._read().statistics.total_ns / NS_PER_S

    @property
    def self_total(self) -> float:
        """The seconds spent inside but in none of the timers inside it: ``self`` in the JSON; never below 0."""
        return _self_ns(self._read()) / NS_PER_S

    @property
    def is_parallel(self) -> bool:
        """Whether it ran in several threads or processes, so that its total may exceed its parent's."""
        return self._read().is_parallel

    @property
    def children(self) -> dict[str, TimerNode]:
        """The timers inside it by name, in the order first seen."""
        return {key: TimerNode(self._recording, (*self._path, key)) for key in self._read().children}

    def merge(self, other: TimerNode, root_name: str | None = None, is_parallel: bool = True) -> None:
        """Add the counts and totals of another node and of all below it; `other` stays as it is.

        Merged into the root of a stack, only what is below `other` counts: that root's total is the time since its
        reset.

        Args:
            other: The node to add, from a thread, a process or a file.
            root_name: The child of this node to add it to; None adds it to this node itself.
            is_parallel: Whether the two ran beside each other, which marks all that is added.
        """
        tree = copy_tree(other._read(), is_parallel=is_parallel)
        self._recording.adopt(self._path if root_name is None else (*self._path, root_name), tree)

    def to_tree(self) -> TreeNode:
        """Return what there is now as plain data of its own, the inverse of `from_tree`."""
        return copy_tree(self._read())

    def copy(self) -> TimerNode:
        """Return what there is now as a root node that does not change any more."""
        return TimerNode.from_tree(self._read())

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data: ``total``, ``count``, ``is_parallel`` only if true, ``self`` and ``children`` if any.

        Timers more than 200 levels down are left out; their time stays in the totals above.
        """
        tree = self._read()
        plain = _node_fields(tree)
        stack = [(tree, plain, 1)]
        while stack:
            node, node_plain, depth = stack.pop()
            if node.children and depth < _MAX_DOCUMENT_DEPTH:
                children = node_plain["children"] = {}
                for key, child in node.children.items():
                    children[key] = _node_fields(child)
                    stack.append((child, children[key], depth + 1))
        return plain

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as plain data, with open timers as they are now."""
        return TimerNode.from_tree, (self.to_tree(),)

    def __repr__(self) -> str:
        """Return the name and the numbers in one line."""
        return f"<TimerNode {self.name!r}: count {self.count}, total {self.total:.4f} s>"

    def _read(self) -> TreeNode:
        tree = self._recording.read()
        for key in self._path:
            tree = tree.children.get(key) or TreeNode(key)
        return tree


def _nest(path: tuple[str, ...], tree: TreeNode) -> TreeNode:
    """Return a root with a tree below `path`, or the tree itself; what lies between has no passes."""
    root = node = TreeNode()
    for key in path[:-1]:
        node.children[key] = node = TreeNode(key)
    if path:
        node.children[path[-1]] = tree
    return root if path else tree


def _can_record(recorded: TreeNode, path: tuple[str, ...], tree: TreeNode) -> bool:
    """Tell whether a recorder can take a tree below `path`: it leaves out blocks without passes, and all inside."""
    node: TreeNode | None = recorded
    for key in path[:-1]:
        node = node.children.get(key) if node is not None else None
    return node is not None and all(each.statistics.count for each in tree.walk() if path or each is not tree)


def _self_ns(node: TreeNode) -> int:
    return max(0, node.statistics.total_ns - sum(child.statistics.total_ns for child in node.children.values()))


def _node_fields(node: TreeNode) -> dict[str, Any]:
    fields: dict[str, Any] = {"total": node.statistics.total_ns / NS_PER_S, "count": node.statistics.count}
    if node.is_parallel:
        fields["is_parallel"] = True
    fields["self"] = _self_ns(node) / NS_PER_S
    return fields
