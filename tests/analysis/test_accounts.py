"""Accounts of time by hand: what is work, what is a wait and for whom, what nobody has named."""

from __future__ import annotations

import math

import pytest

from sample_profiler.analysis.accounts import account, accounts
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.kinds import TIMEIT, average_kind
from sample_profiler.profiling.tree.tree import TreeNode
from tests.analysis.made_runs import make_record

MS = 1_000_000


def make_tree(total_ms, children=None, *, key="", kind=None, is_parallel=False):
    """Children: a total in milliseconds, or a tuple of that and its children, by key."""
    node = TreeNode(key, kind) if kind else TreeNode(key)
    node.statistics.add([total_ms * MS])
    node.is_parallel = is_parallel
    for child, content in (children or {}).items():
        total, inside = content if isinstance(content, tuple) else (content, {})
        node.children[child] = make_tree(total, inside, key=child)
    return node


def account_of(tree, **gauges):
    return account(make_record({"A": tree}, **gauges), "A")


def parts_of(figures):
    return sum(figures.work_ns.values()) + sum(figures.waits_ns.values()) + figures.unaccounted_ns


def test_blocks_below_the_main_loop_are_work_or_waits_and_the_rest_is_unaccounted():
    # wall 1000 = start_up 100 + env_step 500 + overhead 50 + waits 290 + (main loop 880 - 840) + (root 1000 - 980)
    loop = {"env_step": 500, "overhead": 50, "wait_inference": 200, "wait_batcher_0": 90}
    figures = account_of(make_tree(1000, {"start_up": 100, "main_loop": (880, loop)}), run_delay_s=0.25)
    assert figures.wall_ns == 1000 * MS
    assert figures.work_ns == {"start_up": 100 * MS, "env_step": 500 * MS, "overhead": 50 * MS}
    assert figures.waits_ns == {"inference": 200 * MS, "batcher_0": 90 * MS}
    assert figures.unaccounted_ns == 60 * MS
    assert figures.run_delay_s == 0.25
    assert not figures.is_parallel
    assert (figures.wall_s, figures.work["env_step"], figures.waits["inference"]) == (1.0, 0.5, 0.2)
    assert (figures.work_s, figures.waits_s, figures.unaccounted_s) == (0.65, 0.29, 0.06)
    assert figures.share(figures.unaccounted_ns) == 0.06


def test_a_wait_deep_in_a_block_is_no_work():
    # train 700 holds 30 + 20 of waits; a wait inside a wait is that wait's
    tree = {"train": (700, {"epoch": (600, {"wait_batcher": (30, {"wait_kernel": 10}), "step": 400}), "wait_disk": 20})}
    figures = account_of(make_tree(1000, tree))
    assert figures.work_ns == {"train": 650 * MS}
    assert figures.waits_ns == {"batcher": 30 * MS, "disk": 20 * MS}
    assert figures.unaccounted_ns == 300 * MS


def test_waits_are_named_by_whom_they_are_for():
    waits = {"wait_for_trajectories": 1, "wait_policy": 2, "wait_learner": 4, "wait_rollout_workers": 8}
    figures = account_of(make_tree(100, waits))
    assert figures.waits_ns == {"learner": 7 * MS, "rollout_workers": 8 * MS}


def test_a_block_inside_and_outside_of_the_main_loop_is_one_part():
    figures = account_of(make_tree(100, {"save": 10, "main_loop": (80, {"save": 30})}))
    assert figures.work_ns == {"save": 40 * MS}
    assert figures.unaccounted_ns == 60 * MS


def test_totals_count_whatever_the_kind_shows():
    tree = make_tree(100)
    for key, kind in (("last", TIMEIT), ("mean", average_kind(2))):
        node = tree.children[key] = TreeNode(key, kind)
        node.statistics.add([10 * MS, 20 * MS, 3 * MS], window=kind.window)
    assert account_of(tree).work_ns == {"last": 33 * MS, "mean": 33 * MS}


def test_a_missing_run_delay_is_not_zero():
    assert account_of(make_tree(100)).run_delay_s is None
    assert account_of(make_tree(100), run_delay_s=0.0).run_delay_s == 0.0


def test_threads_that_did_more_than_the_wall_are_scaled_to_it_and_marked():
    tree = make_tree(100, {"read": 150, "wait_disk": 50}, is_parallel=True)
    figures = account_of(tree)
    assert figures.is_parallel
    assert figures.work_ns == {"read": 75 * MS}
    assert figures.waits_ns == {"disk": 25 * MS}
    assert figures.unaccounted_ns == 0


def test_threads_within_the_wall_are_marked_and_nothing_is_scaled():
    figures = account_of(make_tree(100, {"read": 50}, is_parallel=True))
    assert figures.is_parallel
    assert (figures.work_ns, figures.unaccounted_ns) == ({"read": 50 * MS}, 50 * MS)


def test_tasks_that_overlap_in_one_thread_are_marked_too():
    assert account_of(make_tree(100, {"fetch": 300})).is_parallel


def test_waits_of_other_threads_within_a_block_leave_it_no_negative_work():
    figures = account_of(make_tree(100, {"pool": (20, {"wait_disk": 60})}, is_parallel=True))
    assert figures.work_ns == {"pool": 0}
    assert figures.waits_ns == {"disk": 60 * MS}
    assert parts_of(figures) == figures.wall_ns


def test_a_reading_while_the_process_goes_on_is_not_taken_for_threads():
    # The block was read 1 ms after the root.
    figures = account_of(make_tree(100, {"step": 101}))
    assert not figures.is_parallel
    assert (figures.work_ns, figures.unaccounted_ns) == ({"step": 100 * MS}, 0)


@pytest.mark.parametrize("wall_ms", [0, 1, 97, 100, 333, 1000])
def test_the_parts_are_the_wall_to_the_nanosecond(wall_ms):
    tree = make_tree(wall_ms, {"a": 31, "main_loop": (200, {"b": (67, {"wait_x": 13}), "wait_y": 7}), "wait_z": 11})
    tree.children["a"].statistics.total_ns += 7
    figures = account_of(tree)
    assert parts_of(figures) == figures.wall_ns == wall_ms * MS


def test_a_component_that_recorded_nothing_is_all_unaccounted():
    figures = account_of(make_tree(5))
    assert (figures.work_ns, figures.waits_ns, figures.unaccounted_ns) == ({}, {}, 5 * MS)
    empty = account_of(TreeNode())
    assert (empty.wall_ns, empty.share(0)) == (0, 0.0)


def test_components_that_share_a_process_have_an_account_each_and_timers_have_none():
    trees = {"Runner": make_tree(10, {"wait_Learner_0": 4}), "Learner_0": make_tree(9, {"train": 4})}
    record = make_record({**trees, "timers": make_tree(10)})
    found = accounts(Session(0.0, processes=[record, make_record({"Batcher_0": make_tree(1)})]))
    assert [figures.component for figures in found] == ["Runner", "Learner_0", "Batcher_0"]
    assert found[0].waits_ns == {"Learner_0": 4 * MS}
    with pytest.raises(KeyError):
        account(record, "Oracle")


@pytest.mark.parametrize("value", [1e300, -1e308, math.inf, math.nan])
def test_a_run_delay_that_no_clock_can_show_is_unknown(value):
    assert account_of(make_tree(100), run_delay_s=value).run_delay_s is None
