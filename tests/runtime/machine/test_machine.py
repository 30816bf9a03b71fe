"""Facts about the machine and what follows from them."""

from __future__ import annotations

import os

import psutil
import pytest

from sample_profiler.runtime.machine import machine
from sample_profiler.runtime.machine.machine import (
    Machine,
    choose_cpus,
    choose_inference_threads,
    choose_learner_threads,
    choose_training_threads,
    choose_worker_threads,
    derive_seed,
    draw_seed,
    tame_numerical_libraries,
    usable_cpus,
)


def test_the_machine_is_described_in_plain_data():
    facts = Machine.this().to_dict()
    assert set(facts) == {"processor", "num_cpus", "memory_gib", "system", "python"}
    assert 1 <= facts["num_cpus"] <= len(os.sched_getaffinity(0))
    assert facts["memory_gib"] == pytest.approx(psutil.virtual_memory().total / 2**30, abs=0.1)
    assert all(isinstance(value, str | int | float) and value != "" for value in facts.values())


def test_usable_cores_are_those_of_this_process_only(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 2})
    assert usable_cpus() == [2, 5]


@pytest.mark.parametrize("num_cpus", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("num_workers", [1, 2, 3, 5, 8, 20])
def test_workers_share_the_cores_evenly(monkeypatch, num_cpus, num_workers):
    cpus = [10 + 3 * index for index in range(num_cpus)]
    monkeypatch.setattr(machine, "usable_cpus", lambda: cpus)
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


def test_drawn_seeds_differ_and_can_be_given_as_a_flag():
    seeds = {draw_seed() for _ in range(20)}
    assert len(seeds) > 15
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_derived_seeds_are_the_same_again_and_independent_of_each_other():
    paths = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), *((2, number) for number in range(500))]
    seeds = [derive_seed(7, *path) for path in paths]
    assert seeds == [derive_seed(7, *path) for path in paths]
    assert len(set(seeds)) == len(seeds)
    assert not set(seeds) & {derive_seed(8, *path) for path in paths}
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_libraries_are_limited_to_the_threads_that_are_asked_for(monkeypatch):
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    tame_numerical_libraries()
    assert [os.environ.get(name) for name in names] == [None, None, None, "PASSIVE"]
    tame_numerical_libraries(3)
    assert [os.environ.get(name) for name in names] == ["3", "3", "3", "PASSIVE"]
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    tame_numerical_libraries(3)
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE", "what the user chose is left alone"
