"""The figures of a run, from records by hand."""

from __future__ import annotations

import math

import pytest

from sample_profiler.analysis.facts import run_facts
from sample_profiler.analysis.verdict import judge
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.statistics import DeviceStatistics
from sample_profiler.profiling.tree.tree import TreeNode
from tests.analysis.made_runs import make_record

MS = 1_000_000


def make_node(key, total_ms, num, children=(), device=None):
    node = TreeNode(key)
    node.statistics.count, node.statistics.total_ns = num, total_ms * MS
    node.device = device
    node.children = {child.key: child for child in children}
    return node


def test_device_time_is_a_share_of_the_wall_by_its_mean_over_all_passes():
    # Of all passes since the start the device has done 40 in 400 ms; the window has 30 of them, in 1000 ms.
    known = make_node("prepare_batch", 500, 30, device=DeviceStatistics(count=40, total_ns=400 * MS, num_unresolved=2))
    unresolved = make_node("train", 100, 30, device=DeviceStatistics(num_unresolved=30))
    root = make_node("", 1000, 1, [make_node("main_loop", 900, 1, [known, unresolved])])
    record = make_record({"Learner_0": root}, name="Learner_0")
    (load,) = run_facts(Session(0.0, processes=[record])).components
    assert load.device == {"prepare_batch": pytest.approx(0.3)}
    assert load.blocks == {"prepare_batch": 0.5, "train": 0.1}


@pytest.mark.parametrize(("gauges", "cores"), [({"RolloutWorker_w0/children_cpu_s": 1.5}, 3.0), ({}, None)])
def test_the_time_of_games_is_that_of_their_worker(gauges, cores):
    record = make_record({"RolloutWorker_w0": make_node("", 500, 1)}, name="RolloutWorker_w0", **gauges)
    for gauge in record.gauges.values():
        gauge.count = 1
    (load,) = run_facts(Session(0.0, processes=[record])).components
    assert load.children_cpu == cores


def test_gauges_that_an_environment_names_like_ours_do_not_count():
    gauges = {"Runner/frames": 1000.0, "frames": 9e9, "my/frames": 8e9, "Learner_0/policy_lag": 3.0, "cpu_s": 5.0}
    trees = {name: make_node("", 10_000, 1) for name in ("Runner", "Learner_0")}
    record = make_record(trees, name="Serial", **gauges, fps=7e9, policy_lag=99.0)
    facts = run_facts(Session(0.0, processes=[record]))
    assert facts.fps == 100.0
    assert [load.gauges for load in facts.components] == [
        {"frames": 1000.0, "cpu_s": 5.0},
        {"policy_lag": 3.0, "cpu_s": 5.0},
    ]


@pytest.mark.parametrize("value", ["abc", None, [1], {"a": 1}, float("nan"), float("inf"), 2.0, True, 0, -3, 10**400])
def test_a_flag_that_no_run_can_have_counts_as_not_known(value):
    facts = run_facts(Session(0.0, config={"num_epochs": value, "rollout": 8, "async_rl": False}))
    assert facts.flag("num_epochs", 1) == 1
    assert facts.flag("rollout", 32) == 8
    assert facts.flag("async_rl", True) is False
    assert judge(facts).cause


def test_zero_is_a_number_where_it_may_be_one():
    assert run_facts(Session(0.0, config={"max_policy_lag": 0})).flag("max_policy_lag", 1000, least=0) == 0


@pytest.mark.parametrize("value", [math.inf, math.nan, 1e300])
def test_a_gauge_that_is_no_number_to_count_with_is_unknown(value):
    record = make_record({"Learner_0": make_node("", 1000, 1)}, cpu_s=value, **{"Learner_0/policy_lag": value})
    for gauge in record.gauges.values():
        gauge.count = 1
    facts = run_facts(Session(0.0, processes=[record], run={"start_s": None}))
    assert facts.start_s == 0.0
    assert facts.components[0].gauges == {}


def test_a_run_that_stood_still_is_as_fast_as_it_was_while_it_did_not():
    gauges = {"Runner/frames": 1000.0, "Runner/stood_still_s": 6.0}
    record = make_record({"Runner": make_node("", 10_000, 1)}, name="Runner", **gauges)
    for gauge in record.gauges.values():
        gauge.count = 1
    facts = run_facts(Session(0.0, processes=[record]))
    assert (facts.seconds, facts.fps, facts.stood_still_s) == (10.0, 250.0, 6.0)
    assert any("for 6 s of that the run stood still" in line for line in judge(facts).evidence)
