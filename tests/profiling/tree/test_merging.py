"""Trees are added up path by path, with all that their nodes have."""

from __future__ import annotations

from sample_profiler.profiling.tree.merging import copy_tree, merge_trees
from sample_profiler.profiling.tree.statistics import DeviceStatistics
from sample_profiler.profiling.tree.tree import TreeNode


def make_tree(key, duration_ns, *, device=None, is_parallel=False):
    root = TreeNode()
    root.children[key] = node = TreeNode(key)
    node.statistics.add([duration_ns])
    node.device, node.is_parallel = device, is_parallel
    return root


def test_what_both_have_is_added_up_and_what_one_has_is_taken_over():
    target = make_tree("train", 3, device=DeviceStatistics(1, 30, 0))
    merge_trees(target, make_tree("train", 4, device=DeviceStatistics(2, 40, 5), is_parallel=True))
    merge_trees(target, make_tree("save", 5, device=DeviceStatistics(1, 50, 0)))
    train, save = target.children["train"], target.children["save"]
    assert (train.statistics.count, train.statistics.total_ns) == (2, 7)
    assert (train.device, train.is_parallel) == (DeviceStatistics(3, 70, 5), True)
    assert (save.statistics.total_ns, save.device, save.is_parallel) == (5, DeviceStatistics(1, 50, 0), False)


def test_a_copy_is_independent():
    tree = make_tree("train", 3, device=DeviceStatistics(1, 30, 0))
    copied = copy_tree(tree)
    merge_trees(copied, tree)
    node, other = tree.children["train"], copied.children["train"]
    assert (node.statistics.total_ns, node.device) == (3, DeviceStatistics(1, 30, 0))
    assert (other.statistics.total_ns, other.device) == (6, DeviceStatistics(2, 60, 0))
    assert all(each.is_parallel for each in copy_tree(tree, is_parallel=True).walk())
    assert not any(each.is_parallel for each in tree.walk())
