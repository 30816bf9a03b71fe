"""The words in which the lack of memory is told."""

from __future__ import annotations

import pytest

from sample_profiler.run.lost_components.lack_of_memory import (
    describe_envs,
    describe_kill,
    describe_refusal,
    describe_whole,
    name_with,
)
from sample_profiler.runtime.machine.memory_limits import MemoryLimit
from sample_profiler.runtime.machine.memory_watch import LackOfMemory, MemoryUse

MIB = 1 << 20
GROUP = MemoryLimit(2048 * MIB, "of the control group /x")
OWN = MemoryLimit(2048 * MIB, "of addresses", used=1946 * MIB)


def use(name, mib, before_mib, started_mib=0, recent_mib=None):
    recent = mib - before_mib if recent_mib is None else recent_mib
    return MemoryUse(name, mib * MIB, started_mib * MIB, before_mib * MIB, 35.2, recent * MIB)


WORKER = use("RolloutWorker_w1", 1946, 205)
LEARNER = use("Learner_0", 512, 500)
SMALL = use("RolloutWorker_w0", 60, 55)


def envs_of(component):
    return {"RolloutWorker_w1": "environments 2 to 3 of game"}.get(component, "")


def test_environments_of_a_worker_are_named(make_run):
    plan, _ = make_run(num_workers=2, num_envs_per_worker=3)
    assert describe_envs("RolloutWorker_w1", plan, "game") == "environments 3 to 5 of game"
    assert describe_envs("Learner_0", plan, "game") == ""
    plan, _ = make_run(num_workers=2, num_envs_per_worker=1)
    assert describe_envs("RolloutWorker_w1", plan, "game") == "environment 1 of game"
    assert name_with("Learner_0", "") == "Learner_0"


def test_who_was_ended_is_told_with_what_it_had_and_since_when_it_grew():
    lack = LackOfMemory(True, WORKER, GROUP, (LEARNER, SMALL))
    assert describe_kill(lack, "was killed", envs_of) == (
        "its process (environments 2 to 3 of game) was ended by the kernel for want of memory: it had 1.9 GiB, grown "
        "from 205 MiB within 35 s"
    )
    whole = describe_whole(lack, envs_of, 0)
    assert whole.startswith(
        "the limit is 2.0 GiB of the control group /x; the others: Learner_0 512 MiB, RolloutWorker_w0 60 MiB: "
        "environments that leak, or too many of them"
    )
    assert "(it leaks)" not in whole
    assert "; 3 processes in its place have ended so within an hour (it leaks): environments" in describe_whole(
        lack, envs_of, 2
    )


def test_the_kernel_may_end_another_one_than_the_one_that_grows():
    lack = LackOfMemory(True, LEARNER, GROUP, (WORKER, SMALL))
    whole = describe_whole(lack, envs_of, 1)
    assert "most has grown RolloutWorker_w1 (environments 2 to 3 of game): 1.9 GiB, grown from 205 MiB" in whole
    assert "the others: RolloutWorker_w0 60 MiB" in whole
    assert "environments that leak" in whole
    assert "it leaks" not in whole, "it is another one that does"


def test_where_nobody_grew_it_is_the_network_that_is_too_large_if_that_is_whose_process_was_ended():
    whole = describe_whole(LackOfMemory(True, LEARNER, GROUP, (SMALL,)), envs_of, 0)
    assert "most has grown" not in whole
    assert "use a smaller network (--rnn_size" in whole


@pytest.mark.parametrize("started_mib", [0, 1500])
def test_what_a_process_has_started_is_told_apart(started_mib):
    lack = LackOfMemory(True, use("RolloutWorker_w1", 1946, 1900, started_mib), GROUP, ())
    words = describe_kill(lack, "was killed", envs_of)
    assert ("it had 1.9 GiB (1.5 GiB of it is what it has started)" in words) == bool(started_mib)
    assert "grown" not in words
    assert "the others" not in describe_whole(lack, envs_of, 0)


def test_who_ended_at_a_limit_of_its_own_is_told_with_that():
    words = describe_kill(LackOfMemory(False, WORKER, OWN, (LEARNER,)), "was killed by signal 6 (SIGABRT)", envs_of)
    assert "was killed by signal 6 (SIGABRT), probably for want of memory: it had 1.9 GiB, grown from" in words
    assert words.endswith("and 1.9 GiB of 2.0 GiB of addresses")


def test_who_was_refused_memory_has_told_of_its_own_limit_itself():
    words = describe_refusal(LackOfMemory(False, WORKER, OWN, ()), "RolloutWorker_w1", 1, knows_own_limit=True)
    assert words == (
        "RolloutWorker_w1 had 1.9 GiB, grown from 205 MiB within 35 s; 2 processes in its place have ended so within "
        "an hour (it leaks)"
    )
    words = describe_refusal(LackOfMemory(True, SMALL, GROUP, ()), "RolloutWorker_w0", 0, knows_own_limit=False)
    assert words == (
        "the kernel has just ended a process of the run for want of memory; RolloutWorker_w0 had 60 MiB; the limit is "
        "2.0 GiB of the control group /x"
    )
    words = describe_refusal(LackOfMemory(False, SMALL, OWN, ()), "RolloutWorker_w0", 0, knows_own_limit=False)
    assert words == "RolloutWorker_w0 had 60 MiB; it had 1.9 GiB of 2.0 GiB of addresses, which may be why"
