"""Processes with more busy threads than cores are meant for them, and what else waits for a processor."""

from __future__ import annotations

import pytest

from sample_profiler.config import parse_config
from tests.analysis.made_runs import inference, judge_run, learner, load, most_fps


def threaded_workers(num, cpu, starved):
    """Workers that step all the time, in that many threads of which some have no processor."""
    waits = {"inference": 0.02, "learner": 0.0}
    counts = {"env_step": 1000}
    return [
        load(f"RolloutWorker_w{index}", 0.98, waits, {"env_step": 0.95}, counts, cpu=cpu, starved=starved)
        for index in range(num)
    ]


def judge_workers(num=16, cpu=1.0, starved=7.0, learner_starved=0.1, **config):
    loads = [*threaded_workers(num, cpu, starved), inference(0.2), learner(0.5, starved=learner_starved)]
    return judge_run(*loads, machine_busy=0.99, num_cores=16, config=config)


@pytest.mark.parametrize(
    ("figures", "cause"),
    [
        ({}, "too many threads"),  # a core each, and eight threads on it
        ({"starved": 0.7, "cpu": 0.8}, "too many threads"),  # a core each, and a second thread that wants it
        ({"num": 8, "starved": 0.7, "cpu": 1.8}, "environments"),  # two cores each, which others want, too
        ({"starved": 0.4, "cpu": 0.6}, "environments"),  # one thread that waits for its core, as others are on it
        ({"num": 4, "cpu": 4.0, "starved": 1.0}, "environments"),  # as many as the four cores of each
        ({"num": 4, "cpu": 4.0, "starved": 3.0}, "too many threads"),
        ({"num": 4, "cpu": 4.0, "starved": 3.0, "set_workers_cpu_affinity": False}, "too many threads"),
        # Untied, a worker takes cores that nobody else wants.
        ({"num": 1, "cpu": 4.0, "starved": 2.0, "set_workers_cpu_affinity": False}, "environments"),
        ({"starved": 15.0, "set_workers_cpu_affinity": False}, "too many threads"),
        # A Learner has all cores on purpose: sixteen threads of it wait where workers work.
        ({"starved": 0.4, "cpu": 0.6, "learner_starved": 9.0}, "environments"),
        ({"learner_starved": 9.0}, "too many threads"),
    ],
)
def test_a_worker_has_too_many_threads_for_its_part_of_the_cores(figures, cause):
    verdict = judge_workers(**figures)
    assert verdict.cause == cause, verdict.headline
    if cause == "too many threads":
        assert verdict.component == "RolloutWorker_w0"


def test_what_workers_with_too_many_threads_are_told():
    verdict = judge_workers()
    assert verdict.headline == "RolloutWorker_w0 has more busy threads than it has cores"
    assert verdict.evidence == (
        "on average 8.0 of its threads were ready to run, on 1 core",
        "7.0 of them had none, though they hold what others wait for",
        "processes of which that is true: 16",
    )
    assert verdict.advice[0].change == "--force_envs_single_thread=True"
    assert parse_config(["--env=none", verdict.advice[0].change]).machine.force_envs_single_thread
    (own,) = judge_workers(force_envs_single_thread=True).advice
    assert own.change == "one thread in what environments load"


def test_workers_that_a_busy_learner_does_not_wait_for_promise_nothing():
    loads = [*threaded_workers(16, 1.0, 7.0), inference(0.2), learner(0.98)]
    (advice, _) = judge_run(*loads, machine_busy=0.99, num_cores=16).advice
    assert advice.fps[1] == pytest.approx(most_fps(1 / 0.98))


@pytest.mark.parametrize(
    ("num_learners", "cores", "starved", "threads"), [(1, 2, 6.0, 2), (2, 16, 9.0, 8), (2, 16, 1.2, None)]
)
def test_learners_are_told_the_threads_that_the_run_gives_them(num_learners, cores, starved, threads):
    # What OMP_NUM_THREADS says they overwrite.
    learners = [
        load(f"Learner_{i}", 0.95, {"batcher": 0.05}, {"train": 0.9}, {"train": 100}, cpu=cores / 2, starved=starved)
        for i in range(num_learners)
    ]
    workers = threaded_workers(1, 1.0, 0.0)
    verdict = judge_run(*workers, inference(0.3), *learners, machine_busy=0.99, num_cores=cores)
    if threads is None:
        assert verdict.cause != "too many threads"
        return
    assert (verdict.cause, verdict.component) == ("too many threads", "Learner_0")
    assert verdict.advice[0].change == f"torch.set_num_threads({threads})"
    assert not any("OMP_NUM_THREADS" in advice.change for advice in verdict.advice)
