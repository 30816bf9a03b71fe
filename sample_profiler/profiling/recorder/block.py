"""The hot path: what entering and leaving a block does, and nothing else.

Entering a block finds its node and puts the `Block` itself into the list of that node; leaving it stores one integer,
the end. Statistics are made from these blocks later: in batches, or when somebody reads. This is what makes a block
cheap, and what makes reading exact: a block turns from open to closed by a single store, so a reader can cut at any
instant without stopping the writer.

Which blocks are open follows from a context variable that holds the block entered last, and from the block outside of
it that every block knows: closed blocks on this way are passed over. So leaving a block, in whatever order, changes
nothing but its end; a thread starts with no open block, and an asyncio task in the block in which it was created.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING

from sample_profiler.errors import TimingError
from sample_profiler.profiling.tree.kinds import Kind

if TYPE_CHECKING:
    from sample_profiler.profiling.recorder.nodes import ThreadNode, ThreadTree
    from sample_profiler.profiling.recorder.pure import Recorder

NOT_ENTERED = -2
OPEN = -1

_entered_last: ContextVar[Block | None] = ContextVar("sample_profiler_block_entered_last", default=None)
get_entered_last = _entered_last.get
_set_entered_last = _entered_last.set


class Block:
    """One pass through a block: a context manager that is entered once.

    Attributes:
        recorder: Where it records.
        key: Its name under the block outside of it.
        kind: What its node's value means.
        tree: The tree of the thread that entered it.
        node: Its record in that tree.
        outer: The block, of whatever recorder, that was open when this one was entered.
        start_ns: When it was entered.
        end_ns: When it was left; until then `NOT_ENTERED` (as `Timing` makes it) and then `OPEN`.
    """

    __slots__ = ("end_ns", "key", "kind", "node", "outer", "recorder", "start_ns", "tree")

    recorder: Recorder
    key: str
    kind: Kind
    tree: ThreadTree
    node: ThreadNode
    outer: Block | None
    start_ns: int
    end_ns: int

    def __enter__(self) -> None:
        """Open the block inside the one that is open now.

        Raises:
            TimingError: The key has another kind or window here, or this very object was entered before.
        """
        recorder = self.recorder
        tree = recorder.threads.tree
        outer = get_entered_last()
        while outer is not None and outer.end_ns != OPEN:
            outer = outer.outer
        if outer is None:
            parent = tree.root
        else:
            beyond = outer.outer
            if beyond is not None and beyond.end_ns != OPEN:
                outer.forget_closed()
            parent = outer.node if outer.tree is tree else _find_parent(outer, tree)
        node = parent.children.get(self.key)
        if node is None or node.kind is not self.kind:
            node = recorder.make_thread_node(tree, parent, self.key, self.kind)
        if self.end_ns != NOT_ENTERED:
            raise TimingError(
                f"the block {self.key!r} is entered twice; allowed is once: call {self.kind.method}() for each pass"
            )
        blocks = node.blocks
        if len(blocks) >= node.fold_at:
            blocks = recorder.fold(node)
        self.outer = outer
        self.tree = tree
        self.node = node
        blocks.append(self)
        _set_entered_last(self)
        self.start_ns = recorder.clock_ns()
        self.end_ns = OPEN

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the block, also when an exception leaves it; the exception goes on."""
        self.end_ns = self.recorder.clock_ns()

    def path(self) -> tuple[str, ...]:
        """Return the keys from the root to this block, which has been entered."""
        keys: list[str] = []
        node = self.node.shared
        while node.parent is not None:
            keys.append(node.key)
            node = node.parent
        return tuple(reversed(keys))

    def forget_closed(self) -> None:
        """Let go of the closed blocks outside of this one: tasks that start each other would chain them for ever."""
        outer = self.outer
        while outer is not None and outer.end_ns != OPEN:
            outer = outer.outer
        self.outer = outer


def get_open_blocks() -> list[Block]:
    """Return the blocks that are open in the current context, the innermost first."""
    blocks: list[Block] = []
    block = get_entered_last()
    while block is not None:
        if block.end_ns == OPEN:
            blocks.append(block)
        block = block.outer
    return blocks


def _find_parent(outer: Block | None, tree: ThreadTree) -> ThreadNode:
    """Return the node of the innermost open block of this tree: those of other recorders and threads do not count."""
    while outer is not None:
        if outer.tree is tree and outer.end_ns == OPEN:
            return outer.node
        outer = outer.outer
    return tree.root
