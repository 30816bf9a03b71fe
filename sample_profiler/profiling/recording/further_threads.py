"""The timers of threads without trees of their own in a record file: one tree for all of them, made now and then."""

from __future__ import annotations

from sample_profiler.profiling.record.earlier_timers import take_off
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.timers.stacks import TimerStack
from sample_profiler.profiling.timing import Timing
from sample_profiler.profiling.tree.merging import copy_tree, merge_trees
from sample_profiler.profiling.tree.tree import TreeNode

__all__ = ["FurtherThreads"]


class FurtherThreads:
    """Shows the timers of threads, added up. Any thread may add one while another updates.

    Args:
        file: where they are shown.
        name: of the tree.
    """

    def __init__(self, file: RecordFile, name: str) -> None:
        self._file = file
        self._name = name
        self._threads: list[_Thread] = []
        self._over = TreeNode()
        self._timing: Timing | None = None

    def add(self, stack: TimerStack) -> None:
        """Add a thread; what it has recorded before is left out."""
        self._threads.append(_Thread(stack))

    def __contains__(self, stack: object) -> bool:
        """Return whether this thread is one of them, and not over."""
        return any(thread.stack is stack for thread in self._threads.copy())

    def update(self) -> None:
        """Write what they have recorded by now."""
        tree = TreeNode()
        for thread in self._threads.copy():
            is_over = thread.stack.recording.ended_ns is not None  # before it is read for the last time
            used = thread.read()
            if used.children:
                merge_trees(self._over if is_over else tree, used)
            if is_over:
                self._threads.remove(thread)
        merge_trees(tree, self._over)
        if tree.children or self._timing is not None:
            self._write(tree)

    def _write(self, tree: TreeNode) -> None:
        if self._timing is None:
            self._timing = Timing.from_dict({"name": "Timers", **TreeNode().to_dict()})  # whose root does not count on
            self._file.attach(self._timing, self._name, leaves_room=True)
        self._file.write_tree(self._name, tree)


class _Thread:
    def __init__(self, stack: TimerStack) -> None:
        self.stack = stack
        self._recording = stack.recording
        self._earlier = copy_tree(self._recording.read())

    def read(self) -> TreeNode:
        recording = self.stack.recording
        tree = copy_tree(recording.read())
        if recording is self._recording and self._earlier.children:  # not reset since
            take_off(tree, self._earlier)
        return tree
