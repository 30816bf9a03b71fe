"""Trees added to each other, path by path, and copied."""

from __future__ import annotations

from sample_profiler.profiling.tree.kinds import ADD_TIME
from sample_profiler.profiling.tree.tree import TreeNode


def merge_trees(target: TreeNode, source: TreeNode, *, keeps_kinds: bool = False) -> None:
    """Add `source` to `target`, path by path; `source` stays as it is.

    Args:
        target: What grows.
        source: What is added.
        keeps_kinds: Whether new nodes are of their kind in `source`; timers are all of add_time.
    """
    stack = [(target, source)]
    while stack:
        node, other = stack.pop()
        node.statistics.merge(other.statistics)
        node.is_parallel |= other.is_parallel
        node.add_device(other.device)
        for key, child in other.children.items():
            kind = child.kind if keeps_kinds else ADD_TIME
            stack.append((node.children.setdefault(key, TreeNode(key, kind)), child))


def copy_tree(source: TreeNode, *, is_parallel: bool = False) -> TreeNode:
    """Return an independent copy as timers have it.

    Its nodes are of add_time, whatever the kinds were: the value of a timer is its total.

    Args:
        source: What to copy; it stays as it is.
        is_parallel: Whether to mark all of the copy as recorded beside something else.
    """
    tree = TreeNode(source.key)
    merge_trees(tree, source)
    if is_parallel:
        for node in tree.walk():
            node.is_parallel = True
    return tree
