"""Where blocks are kept: shared nodes of the tree, and beside them what each thread recorded there.

No two threads write to the same `ThreadNode`, so recording needs no lock.
"""

from __future__ import annotations

import operator
import threading
import weakref
from typing import Protocol

from sample_profiler.profiling.record.thread_names import number_of_thread
from sample_profiler.profiling.recorder.block import NOT_ENTERED, OPEN, Block
from sample_profiler.profiling.tree.kinds import Kind
from sample_profiler.profiling.tree.statistics import DeviceStatistics, Statistics
from sample_profiler.profiling.tree.tree import TreeNode

FOLD_AT = 64
ASKED_TO_FOLD = 0
"""In place of the number of blocks from which on a node is folded: it is at once, with all others of its thread."""


class EventSink(Protocol):
    """Takes what is to be seen in a timeline."""

    def add_passes(self, node: Node, thread: int, blocks: list[Block]) -> None:
        """Take passes of a node that are over, in the order of their ends, with the number of their thread."""

    def add_flow_point(self, node: Node, thread: int, now_ns: int, number: int) -> None:
        """Take a point of a flow, inside of a block of that node."""


_end_ns = operator.attrgetter("end_ns")


class ThreadNode:
    """What one thread recorded at one node: the latest blocks as they are, and the statistics of all earlier ones."""

    __slots__ = ("blocks", "children", "fold_at", "kind", "shared", "statistics", "tree")

    def __init__(self, shared: Node, tree: ThreadTree) -> None:
        self.shared = shared
        self.tree = tree
        self.kind = shared.kind
        self.children: dict[str, ThreadNode] = {}
        self.blocks: list[Block] = []
        self.fold_at = FOLD_AT
        self.statistics = Statistics()

    def fold(self, sink: EventSink | None = None) -> None:
        """Move the closed blocks into the statistics. Only for the thread that owns this node, or after its end.

        Args:
            sink: Is shown these blocks, before.
        """
        blocks, still_open = self.blocks, []
        ends = [block.end_ns for block in blocks]
        # The usual case is quick; else something is open, or passes of several tasks overlapped.
        if min(ends, default=0) < 0 or ends != sorted(ends):
            still_open = [block for block in blocks if block.end_ns == OPEN]
            blocks = sorted((block for block in blocks if block.end_ns >= 0), key=_end_ns)
        statistics = self.statistics.copy()
        if blocks:
            if sink is not None:
                sink.add_passes(self.shared, self.tree.thread_number, blocks)
            durations = [block.end_ns - block.start_ns for block in blocks]
            statistics.add(durations, last_end_ns=blocks[-1].end_ns, window=self.kind.window)
        # Many tasks may have this node open at once: then wait until as many more have gone by.
        self.fold_at = FOLD_AT + 2 * len(still_open)
        # No call between these two, so that a signal handler that reads never finds one without the other.
        self.statistics = statistics
        self.blocks = still_open

    def read(self, now_ns: int) -> Statistics:
        """Return the statistics as of `now_ns`: what is open then counts as if it ended at that moment."""
        statistics, blocks = self.statistics, self.blocks
        passes: list[tuple[int, int]] = []
        for block in blocks:
            end_ns = block.end_ns
            if end_ns != NOT_ENTERED and block.start_ns <= now_ns:
                passes.append((now_ns if end_ns == OPEN else min(end_ns, now_ns), block.start_ns))
        passes.sort()
        new = statistics.copy()
        if passes:
            durations = [end_ns - start_ns for end_ns, start_ns in passes]
            new.add(durations, last_end_ns=passes[-1][0], window=self.kind.window)
        return new

    def read_closed(self) -> tuple[Statistics, list[Block]]:
        """Return the statistics of all passes that are over, and the blocks that are open."""
        statistics, blocks = self.statistics.copy(), self.blocks
        ends = sorted((block.end_ns, block.start_ns) for block in blocks if block.end_ns >= 0)
        if ends:
            durations = [end_ns - start_ns for end_ns, start_ns in ends]
            statistics.add(durations, last_end_ns=ends[-1][0], window=self.kind.window)
        return statistics, [block for block in blocks if block.end_ns == OPEN]


class ThreadTree:
    """The thread nodes of one thread, and the points of flows that are not in the ring yet."""

    __slots__ = ("flow_points", "nodes", "root", "thread", "thread_number")

    def __init__(self, shared_root: Node) -> None:
        self.root = ThreadNode(shared_root, self)
        self.thread_number = number_of_thread()
        self.nodes: list[ThreadNode] = []
        self.flow_points: list[tuple[ThreadNode, int, int]] = []
        self.thread = weakref.ref(threading.current_thread())

    def ask_to_fold(self) -> None:
        """Let the thread that owns it fold all of it when it next enters one of its blocks."""
        for node in list(self.nodes):
            node.fold_at = ASKED_TO_FOLD

    def is_over(self) -> bool:
        """Return whether the thread has ended and left no block open."""
        thread = self.thread()
        if thread is not None and thread.is_alive():
            return False
        return all(block.end_ns != OPEN for node in self.nodes for block in node.blocks)


class Node:
    """One path of the tree, shared by all threads: its kind, its children in the order first seen.

    Attributes:
        settled: What ended threads and merged recordings contributed.
        device: What an accelerator did for it; None where that was not measured.
        num_ended_threads: How many threads have contributed to it.
        is_parallel: Whether a merged recording has the mark.
        thread_nodes: What the living threads recorded here.
    """

    __slots__ = (
        *("children", "device", "is_parallel", "key", "kind", "num_ended_threads", "parent", "settled"),
        "thread_nodes",
    )

    def __init__(self, key: str, kind: Kind, parent: Node | None) -> None:
        self.key = key
        self.kind = kind
        self.parent = parent
        self.children: dict[str, Node] = {}
        self.settled = Statistics()
        self.device: DeviceStatistics | None = None
        self.num_ended_threads = 0
        self.is_parallel = False
        self.thread_nodes: list[ThreadNode] = []

    def forget(self) -> None:
        """Forget what was recorded here, not what lies below."""
        self.settled = Statistics()
        self.device = None
        self.num_ended_threads = 0
        self.is_parallel = False
        self.thread_nodes = []

    def path(self) -> str:
        """Return the keys from the root to here, for messages."""
        keys: list[str] = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            keys.append(node.key)
            node = node.parent
        return "/".join(reversed(keys))

    def num_threads(self) -> int:
        """Return how many threads have entered it."""
        return self.num_ended_threads + len(self.thread_nodes)

    def read_closed(self) -> tuple[Statistics, list[Block]]:
        """Return the statistics of all passes that are over, and the blocks that are open, over all threads."""
        statistics, open_blocks = self.settled.copy(), list[Block]()
        for node in self.thread_nodes:
            closed, blocks = node.read_closed()
            statistics.merge(closed)
            open_blocks += blocks
        return statistics, open_blocks

    def read(self, now_ns: int) -> TreeNode:
        """Return this node as plain data, without its children."""
        new = TreeNode(self.key, self.kind)
        new.statistics.merge(self.settled)
        num_threads = self.num_ended_threads
        for statistics in [node.read(now_ns) for node in self.thread_nodes]:
            new.statistics.merge(statistics)
            num_threads += statistics.count > 0
        new.is_parallel = self.is_parallel or num_threads > 1
        new.add_device(self.device)
        return new
