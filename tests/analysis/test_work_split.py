"""What work was: parts that make the whole, of the kernel's counters and the Runner's looks."""

from __future__ import annotations

import pytest

from sample_profiler.analysis.accounts import accounts
from sample_profiler.analysis.work_split import WorkSplit, sleeps_of, split_work
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.tree import TreeNode
from tests.analysis.made_runs import make_record

S = 1_000_000_000


def record_of(*components, **gauges):
    return make_record({name: TreeNode() for name in components or ("RolloutWorker_w0",)}, **gauges)


def test_work_is_computing_queueing_and_sleep_and_they_make_all_of_it():
    split = split_work(
        record_of(main_cpu_s=2.0, main_run_delay_s=1.0), 10 * S, {"timer": 0.6, "disk": 0.2, "lock": 0.0}
    )
    assert split == WorkSplit(2 * S, S, 7 * S, {"timer": pytest.approx(0.75), "disk": pytest.approx(0.25)})


@pytest.mark.parametrize(
    ("cpu_s", "delay_s", "parts"), [(12.0, 1.0, (10, 0, 0)), (8.0, 5.0, (8, 2, 0)), (0.0, 0.0, (0, 0, 10))]
)
def test_what_the_waits_take_of_a_processor_makes_work_no_longer(cpu_s, delay_s, parts):
    split = split_work(record_of(main_cpu_s=cpu_s, main_run_delay_s=delay_s), 10 * S, {})
    assert (split.computing_ns, split.queued_ns, split.asleep_ns) == tuple(part * S for part in parts)


@pytest.mark.parametrize("gauges", [{}, {"main_cpu_s": 1.0}, {"main_cpu_s": float("inf"), "main_run_delay_s": 1.0}])
def test_without_the_counters_nothing_is_known(gauges):
    assert split_work(record_of(**gauges), S, {"timer": 1.0}) is None


def test_components_that_share_a_thread_are_not_told_apart():
    record = record_of("Learner_0", "RolloutWorker_w0", main_cpu_s=1.0, main_run_delay_s=0.0)
    assert split_work(record, S, {}) is None


def test_what_was_not_looked_at_slept_for_something_unknown():
    split = split_work(record_of(main_cpu_s=1.0, main_run_delay_s=0.0), 3 * S, {})
    assert (split.asleep_ns, split.sleeps) == (2 * S, {})


def test_looks_become_shares_by_kind_and_an_environment_cannot_name_its_gauges_alike():
    looks = {"Runner/RolloutWorker.looks": 50.0, "Runner/RolloutWorker.disk": 20.0, "RolloutWorker.timer": 50.0}
    session = Session(0.0, processes=[record_of("Runner", **looks)])
    (kind, shares), *others = sleeps_of(session).items()
    assert (kind, others) == ("RolloutWorker", [])
    assert {what: share for what, share in shares.items() if share} == {"disk": 0.4}


def test_an_account_has_the_split_of_its_work():
    root = TreeNode()
    root.statistics.add([10 * S])
    root.children["env_step"] = block = TreeNode("env_step")
    block.statistics.add([8 * S])
    worker = make_record({"RolloutWorker_w0": root}, main_cpu_s=2.0, main_run_delay_s=1.0)
    runner = record_of("Runner", **{"Runner/RolloutWorker.looks": 10.0, "Runner/RolloutWorker.network": 5.0})
    account, _ = accounts(Session(0.0, processes=[worker, runner]))
    assert account.split == WorkSplit(2 * S, S, 5 * S, {"network": 1.0})
