"""Batchers that cannot keep up, and samples that are old when they are trained on."""

from __future__ import annotations

import pytest

from sample_profiler.config import parse_config
from tests.analysis.made_runs import batcher, inference, judge_run, learner, most_fps, worker


def workers(**options):
    return [worker(index, **({"learner": 0.05} | options)) for index in range(2)]


@pytest.mark.parametrize(
    ("busy", "starved", "machine_busy", "learner_busy", "cause"),
    [
        (0.9, 0.1, 0.8, 0.5, "batching"),
        (0.5, 0.1, 0.8, 0.5, "buffers"),  # it waits as everybody does
        (0.9, 0.5, 0.8, 0.5, "buffers"),  # it is busy waiting for a processor
        (0.9, 0.5, 0.5, 0.5, "batching"),  # with processors to spare it is busy with its work
        (0.9, 0.1, 0.8, 0.9, "learner"),  # nobody waits for it
    ],
)
def test_a_batcher_is_the_limit_if_it_works_and_the_learner_waits(busy, starved, machine_busy, learner_busy, cause):
    loads = [*workers(learner=0.4), inference(), learner(learner_busy), batcher(busy, starved=starved, finished=300)]
    verdict = judge_run(*loads, machine_busy=machine_busy)
    assert verdict.cause == cause
    if cause == "batching":
        assert verdict.component == "Batcher_0"
        assert verdict.evidence[0] == "Batcher_0 works 90 % of the time: batching 90 %"
        assert verdict.evidence[1] == "Learner_0 waits 50 % of the time for a dataset"
        assert "300 finished trajectories" in verdict.evidence[2]


@pytest.mark.parametrize(
    ("flags", "change"),
    [
        ({"rollout": 32, "batch_size": 2048}, "--rollout=64"),
        ({"rollout": 32, "batch_size": 96}, "--rollout=64 --batch_size=128"),
    ],
)
def test_longer_rollouts_are_fewer_trajectories(flags, change):
    (advice,) = judge_run(*workers(), inference(), learner(0.5), batcher(0.9), config=flags).advice
    assert advice.change == change
    assert advice.fps == (pytest.approx(5000 * 1.05), pytest.approx(most_fps(1.25))), "no core beyond 80 % more"
    before = [f"--{name}={value}" for name, value in flags.items()]
    assert parse_config(["--env=none", *before, *change.split()]).sampling.rollout == 64


def judge_lag(left_out=0.0, lag=0.0, finished=0.0, learner_busy=0.9, config=None, **options):
    gauges = {"policy_lag": lag, "left_out_share": left_out}
    loads = [*workers(**options), inference(), batcher(finished=finished), learner(learner_busy, gauges=gauges)]
    return judge_run(*loads, config=config)


def test_what_is_too_old_to_be_trained_on_is_told():
    verdict = judge_lag(left_out=0.4, lag=30.0, finished=128.0, config={"max_policy_lag": 20})
    assert (verdict.cause, verdict.component) == ("policy lag", "Learner_0")
    assert verdict.evidence == (
        "Learner_0 left out 40 % of the steps of its latest dataset: they were more than 20 optimizer steps old",
        "samples are 30 optimizer steps old on average, those of 30.0 datasets",
        "128 trajectories wait behind the dataset that Learner_0 trains on, which has 64",
    )
    assert [advice.change for advice in verdict.advice] == [
        "--num_batches_to_accumulate=1",
        "--num_envs_per_worker=8",
        "--max_policy_lag=60 --with_vtrace=True",
    ]
    assert verdict.advice[0].fps == (4750.0, pytest.approx(5500.0)), "as many frames, of which more count"
    assert judge_lag(left_out=0.05, lag=30.0, config={"max_policy_lag": 20}).cause == "balanced"


def test_with_vtrace_older_steps_need_a_larger_bound_alone():
    config = {"max_policy_lag": 20, "with_vtrace": True}
    assert judge_lag(left_out=0.4, lag=15.0, config=config).advice[-1].change == "--max_policy_lag=40"


@pytest.mark.parametrize(
    ("lag", "finished", "flags", "cause"),
    [
        (6.0, 128.0, {}, "policy lag"),
        (6.0, 64.0, {}, "balanced"),  # they do not queue
        (4.0, 128.0, {}, "balanced"),  # what the default memory may hold
        (12.0, 128.0, {"num_epochs": 4}, "balanced"),  # many optimizer steps, few datasets
        (24.0, 128.0, {"num_epochs": 4}, "policy lag"),
        (12.0, 128.0, {"num_batches_per_epoch": 2}, "balanced"),  # the line is half as long in datasets
    ],
)
def test_samples_are_old_where_they_queue_for_datasets(lag, finished, flags, cause):
    assert judge_lag(lag=lag, finished=finished, config=flags).cause == cause


def test_a_learner_that_workers_wait_for_is_the_limit_however_old_samples_are():
    assert judge_lag(lag=20.0, finished=640.0, learner=0.4, learner_busy=0.97).cause == "learner"


@pytest.mark.parametrize(
    ("flags", "changes"),
    [
        ({"num_batches_to_accumulate": 8}, ["--num_batches_to_accumulate=4", "--num_envs_per_worker=8"]),
        ({"num_batches_to_accumulate": 1}, ["--num_envs_per_worker=8"]),
        ({"num_batches_to_accumulate": 1, "num_envs_per_worker": 2}, ["--batch_size=4096"]),
    ],
)
def test_what_makes_samples_younger_is_what_the_program_takes(flags, changes):
    verdict = judge_lag(lag=9.0, finished=500.0, config=flags)
    assert verdict.cause == "policy lag"
    assert [advice.change for advice in verdict.advice] == changes
    before = [f"--{name}={value}" for name, value in ({"num_envs_per_worker": 16} | flags).items()]
    for change in changes:
        parse_config(["--env=none", *before, *change.split()])
