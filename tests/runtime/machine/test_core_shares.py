"""How processes share the cores of the machine."""

from __future__ import annotations

import pytest

from sample_profiler.runtime.machine import core_shares
from sample_profiler.runtime.machine.core_shares import (
    choose_cpus,
    choose_inference_threads,
    choose_learner_threads,
    choose_training_threads,
    choose_worker_threads,
)
from sample_profiler.runtime.machine.machine import Machine


@pytest.mark.parametrize("num_cpus", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("num_workers", [1, 2, 3, 5, 8, 20])
def test_workers_share_the_cores_evenly(monkeypatch, num_cpus, num_workers):
    cpus = [10 + 3 * index for index in range(num_cpus)]
    monkeypatch.setattr(core_shares, "usable_cpus", lambda: cpus)
    chosen = [choose_cpus(worker, num_workers) for worker in range(num_workers)]
    assert all(cores and set(cores) <= set(cpus) for cores in chosen)
    users = [sum(cpu in cores for cores in chosen) for cpu in cpus]
    assert max(users) - min(users) <= 1, "one core has more to do than another"
    if num_workers <= num_cpus:
        assert users == [1] * num_cpus
        assert max(map(len, chosen)) - min(map(len, chosen)) <= 1
    else:
        assert {len(cores) for cores in chosen} == {1}


def test_a_quota_bounds_threads_and_not_the_cores_to_run_on(in_container):
    in_container(400_000)
    assert Machine.this().num_cpus == 4
    assert (choose_learner_threads(1), choose_learner_threads(2), choose_inference_threads(1)) == (4, 2, 1)
    assert [choose_worker_threads(number) for number in (1, 2, 4, 9)] == [4, 2, 1, 1]
    assert choose_cpus(1, 4) == (4, 5, 6, 7), "all containers of a machine would share its first cores"
    assert [choose_training_threads(number) for number in (6_000_000, 300_000_000)] == [1, 4], "small networks: one"
    assert choose_training_threads(None) == 4
    in_container("max")
    assert (Machine.this().num_cpus, choose_learner_threads(1), choose_worker_threads(4)) == (16, 16, None)
