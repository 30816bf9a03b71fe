"""The recorder: one tree for all threads and tasks of a process, its slow paths and its exact reads."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from sample_profiler.profiling.recorder.block import NOT_ENTERED, OPEN, Block, get_entered_last
from sample_profiler.profiling.recorder.nodes import ASKED_TO_FOLD, FOLD_AT, EventSink, Node, ThreadNode, ThreadTree
from sample_profiler.profiling.tree.kinds import ADD_TIME, Kind, check_kind, check_pass
from sample_profiler.profiling.tree.statistics import DeviceStatistics
from sample_profiler.profiling.tree.tree import TreeNode

ClockNs = Callable[[], int]


class _ThreadLocal(threading.local):
    """Gives every thread a `ThreadTree` of its own at its first block."""

    def __init__(self, recorder: Recorder) -> None:
        self.tree = recorder.make_thread_tree()


class Recorder:
    """Records blocks of all threads and tasks of this process into one tree.

    The lock is taken for a new thread, a new node, a fold and a read, never by a block as such. It is re-entrant, so
    that a signal handler may read.

    Args:
        clock_ns: Returns integer nanoseconds that never go back.
        is_running: Whether the root counts from now on; otherwise from the first block, as for a loaded recording.
    """

    def __init__(self, clock_ns: ClockNs, *, is_running: bool = True) -> None:
        self.clock_ns = clock_ns
        self.root = Node("", ADD_TIME, None)
        self.windows: dict[str, Kind] = {}
        self.lock = threading.RLock()
        self.start_ns = clock_ns() if is_running else None
        self.sink: EventSink | None = None
        self.is_attached = False
        self._trees: list[ThreadTree] = []
        self.threads = _ThreadLocal(self)
        renew_lock_after_fork(self)

    def fast_methods(self, device_hook: Callable[[Any], Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return what takes the place of a Timing's own methods, by name: nothing, for they are this recorder's."""
        return {}

    def make_thread_tree(self) -> ThreadTree:
        """Return a tree for the current thread, and settle those of threads that have ended."""
        with self.lock:
            self._settle_ended_threads()
            tree = ThreadTree(self.root)
            self._trees.append(tree)
            return tree

    def make_thread_node(self, tree: ThreadTree, parent: ThreadNode, key: str, kind: Kind) -> ThreadNode:
        """Return the record of `key` under `parent`, new at this thread's first pass.

        Raises:
            TimingError: The key is no string, or has another kind or window here.
        """
        with self.lock:
            node = ThreadNode(self._make_child(parent.shared, key, kind), tree)
            if self.start_ns is None:
                self.start_ns = self.clock_ns()
            if tree in self._trees:  # else it is from before a restart
                node.shared.thread_nodes.append(node)
            tree.nodes.append(node)
            parent.children[key] = node
            return node

    def fold(self, node: ThreadNode) -> list[Block]:
        """Move a thread node's closed blocks into its statistics and return its now short list of blocks."""
        with self.lock:
            if node.fold_at == ASKED_TO_FOLD:
                self._fold_tree(node.tree)
            else:
                node.fold(self.sink)
            return node.blocks

    def fold_threads(self) -> None:
        """Move all closed blocks of the current thread, and of those that have ended, into their statistics.

        Where somebody is shown them, other threads do the same with theirs when they next enter a block.
        """
        with self.lock:
            self._settle_ended_threads()
            own = self.threads.tree
            self._fold_tree(own)
            if self.sink is not None:
                for tree in self._trees:
                    if tree is not own:
                        tree.ask_to_fold()

    def restart(self) -> None:
        """Begin anew with nothing recorded; open blocks end unrecorded. Keys keep their kinds, and slots in a file."""
        with self.lock:
            self._fold_tree(self.threads.tree)
            self._trees.clear()
            stack = [self.root]
            while stack:
                node = stack.pop()
                node.forget()
                stack.extend(node.children.values())
            self.start_ns = self.clock_ns()
            self.threads = _ThreadLocal(self)

    def make_block(self, key: str, kind: Kind) -> Block:
        """Return a block of any kind, to be entered once."""
        block = Block()
        block.recorder = self
        block.key = key
        block.kind = kind
        block.end_ns = NOT_ENTERED
        return block

    def record(self, key: str, start_ns: int, end_ns: int) -> None:
        """Add a pass that is over to a block inside the one that is open now.

        Raises:
            TimingError: The key has another kind there, the pass ends before its start, or one of the two is no whole
                number of 64 bits.
        """
        start_ns, end_ns = check_pass(key, start_ns, end_ns)
        parent, tree = self.current_node(), self.threads.tree
        node = parent.children.get(key)
        if node is None or node.kind is not ADD_TIME:
            node = self.make_thread_node(tree, parent, key, ADD_TIME)
        blocks = node.blocks if len(node.blocks) < node.fold_at else self.fold(node)
        block = self.make_block(key, ADD_TIME)
        block.tree, block.node, block.outer = tree, node, None
        block.start_ns, block.end_ns = start_ns, end_ns
        blocks.append(block)

    def mark_flow(self, number: int) -> None:
        """Put a point of a flow into the ring of the record file, inside the block that is open now."""
        if self.sink is not None:
            node = self.current_node()
            points = node.tree.flow_points
            points.append((node, self.clock_ns(), number))
            if len(points) >= FOLD_AT:
                with self.lock:
                    self._write_flow_points(node.tree)

    def current_node(self) -> ThreadNode:
        """Return the node of the innermost open block of this recorder in the current thread."""
        tree = self.threads.tree
        block = get_entered_last()
        while block is not None:
            if block.end_ns == OPEN and block.tree is tree:
                return block.node
            block = block.outer
        return tree.root

    def add_device_statistics(self, path: tuple[str, ...], device: DeviceStatistics) -> None:
        """Add what an accelerator did for a block; of a block that is not there nothing is noted."""
        node: Node | None = self.root
        for key in path:
            node = node.children.get(key) if node is not None else None
        if node is not None:
            with self.lock:
                node.device = node.device or DeviceStatistics()
                node.device.merge(device)

    def read(self) -> TreeNode:
        """Return everything recorded up to now as plain data; open blocks count with their open part."""
        with self.lock:
            now_ns = self.clock_ns()
            root = self._read_root(now_ns)
            stack = [(self.root, root)]
            while stack:
                node, new = stack.pop()
                for key, child in list(node.children.items()):
                    new_child = child.read(now_ns)
                    if new_child.statistics.count:
                        new.children[key] = new_child
                        stack.append((child, new_child))
            return root

    def adopt(self, tree: TreeNode, *, is_parallel: bool) -> None:
        """Add another recording, path by path.

        Args:
            tree: The other recording; it stays as it is.
            is_parallel: Whether the two ran beside each other, which marks what both have.

        Raises:
            TimingError: A key of one parent has two kinds or windows; then nothing is added.
        """
        with self.lock:
            self._check_kinds(tree)
            stack = [(tree, self.root)]
            while stack:
                source, node = stack.pop()
                is_in_both = bool(node.settled.count or node.thread_nodes)
                node.is_parallel |= source.is_parallel or (is_parallel and is_in_both)
                node.settled.merge(source.statistics)
                if source.device is not None:
                    node.device = node.device or DeviceStatistics()
                    node.device.merge(source.device)
                stack.extend((child, self._make_child(node, key, child.kind)) for key, child in source.children.items())

    def _read_root(self, now_ns: int) -> TreeNode:
        root = self.root.read(now_ns)
        if self.start_ns is not None:
            root.statistics.add([now_ns - self.start_ns], last_end_ns=now_ns)
        root.is_parallel |= self.root.num_ended_threads + sum(1 for tree in self._trees if tree.nodes) > 1
        return root

    def _make_child(self, parent: Node, key: str, kind: Kind) -> Node:
        self._check_kind(parent, key, kind)
        child = parent.children.get(key)
        if child is None:
            child = parent.children[key] = Node(key, kind, parent)
            if kind.window is not None:
                self.windows[key] = kind
        return child

    def _check_kind(self, parent: Node | None, key: str, kind: Kind) -> None:
        child = parent.children.get(key) if parent is not None and isinstance(key, str) else None
        existing, path = (None, "") if child is None else (child.kind, child.path())
        check_kind(key, kind, existing, path, self.windows.get(key) if isinstance(key, str) else None)

    def _check_kinds(self, tree: TreeNode) -> None:
        stack: list[tuple[TreeNode, Node | None]] = [(tree, self.root)]
        while stack:
            source, node = stack.pop()
            for key, child in source.children.items():
                self._check_kind(node, key, child.kind)
                stack.append((child, node.children.get(key) if node is not None else None))

    def _settle_ended_threads(self) -> None:
        for tree in [tree for tree in self._trees if tree.is_over()]:
            self._settle_thread(tree)

    def _fold_tree(self, tree: ThreadTree) -> None:
        for node in tree.nodes:
            node.fold(self.sink)
        self._write_flow_points(tree)

    def _write_flow_points(self, tree: ThreadTree) -> None:
        # Taken at once: a signal handler may add more.
        points, tree.flow_points = tree.flow_points, []
        if self.sink is not None:
            for node, now_ns, number in points:
                self.sink.add_flow_point(node.shared, tree.thread_number, now_ns, number)

    def _settle_thread(self, tree: ThreadTree) -> None:
        self._write_flow_points(tree)
        for node in tree.nodes:
            node.fold(self.sink)
            shared = node.shared
            shared.thread_nodes.remove(node)
            shared.settled.merge(node.statistics)
            shared.num_ended_threads += 1
            if shared.kind.window is not None:
                shared.settled.recent_ns = shared.settled.recent_ns[-shared.kind.window :]
        self.root.num_ended_threads += bool(tree.nodes)
        self._trees.remove(tree)


class _Locked(Protocol):
    lock: Any


_locked: weakref.WeakSet[_Locked] = weakref.WeakSet()


def renew_lock_after_fork(recorder: _Locked) -> None:
    """Give a recorder's copy in a forked process a lock of its own."""
    _locked.add(recorder)


def _renew_locks() -> None:
    """Free a forked child of locks that other threads of its parent held at that moment."""
    for recorder in _locked:
        recorder.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
