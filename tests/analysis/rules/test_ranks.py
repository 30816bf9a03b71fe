"""Ranks that hold each other up: one is slower than the others, or adding up takes long."""

from __future__ import annotations

import pytest

from sample_profiler.config import parse_config
from tests.analysis.made_runs import SECONDS, inference, judge_run, learner, load, worker


def waiting_learner(for_ranks, for_batcher, **options):
    waits = {"ranks": for_ranks, "batcher": for_batcher}
    busy = 1 - for_ranks - for_batcher
    return load("Learner_0", busy, waits, {"train": busy}, {"train": 100}, **options)


def test_a_rank_that_all_wait_for_is_named():
    workers = [worker(index, inference=0.1, learner=0.5, busy=0.4) for index in range(2)]
    verdict = judge_run(
        *workers, inference(0.3), waiting_learner(0.6, 0.05, gauges={"slowest_rank": 3.0}), machine_busy=0.5
    )
    assert verdict.cause == "ranks"
    assert verdict.headline == "Another rank is the limit: all wait for rank 3"
    assert verdict.evidence[0] == "Learner_0 waits 60 % of the time for other ranks, whose datasets are not complete"
    assert verdict.advice[0].change.endswith(".rank3")
    assert verdict.advice[0].fps[0] > 5000


def test_the_rank_that_the_others_wait_for_is_judged_by_what_limits_it():
    workers = [worker(index, busy=0.95, inference=0.02, learner=0.0, env_step=0.9, cpu=0.9) for index in range(2)]
    load = waiting_learner(0.02, 0.8, gauges={"slowest_rank": 0.0})
    assert judge_run(*workers, inference(0.2), load, machine_busy=0.9).cause == "environments"


def test_a_rank_that_is_ahead_by_a_little_is_judged_by_what_limits_it_as_well():
    workers = [worker(index, busy=0.95, inference=0.02, learner=0.01, env_step=0.9, cpu=0.9) for index in range(2)]
    load = waiting_learner(0.7, 0.05, gauges={"slowest_rank": 1.0})
    assert judge_run(*workers, inference(0.2), load, machine_busy=0.9).cause == "environments"


@pytest.mark.parametrize(("share", "cause"), [(0.5, "all-reduce"), (0.1, "learner")])
def test_adding_up_gradients_is_the_limit_where_it_is_much_of_training(share, cause):
    blocks = {"train/update/all_reduce": share, "train/epoch_init": 0.02, "train/epoch_init/all_reduce": 0.01}
    counts = {"train/update/all_reduce": 1000, "train/epoch_init/all_reduce": 200}
    workers = [worker(index, inference=0.1, learner=0.6, busy=0.3) for index in range(2)]
    load = learner(0.97, blocks, counts, gauges={"adding_up_ratio": 0.9, "slowest_rank_in_steps": 1.0})
    verdict = judge_run(*workers, inference(0.3), load, machine_busy=0.5)
    assert verdict.cause == cause
    if cause == "all-reduce":
        each_ms = 1000 * (share + 0.01) * SECONDS / 1200
        assert (
            verdict.evidence[0] == f"Learner_0 adds up over the ranks for 51 % of the time: {each_ms:.2f} ms each time"
        )
        assert parse_config(["--env=any", verdict.advice[0].change]).sampling.batch_size == 4096


def test_a_rank_whose_steps_take_longer_is_named_where_the_others_add_up():
    blocks = {"train/update/all_reduce": 0.6, "train/epoch_init": 0.02}
    workers = [worker(index, inference=0.1, learner=0.6, busy=0.3) for index in range(2)]
    gauges = {"adding_up_ratio": 0.1, "slowest_rank_in_steps": 2.0, "slowest_rank": 0.0}
    load = learner(0.97, blocks, {"train/update/all_reduce": 1000}, gauges=gauges)
    verdict = judge_run(*workers, inference(0.3), load, machine_busy=1.0, num_cores=1)
    assert verdict.cause == "ranks", "its one core may be busy with others, and is not what it waits for"
    assert verdict.headline == "Another rank is the limit: all wait for rank 2 in each step"
    assert verdict.evidence[:2] == (
        "Learner_0 adds up over the ranks for 60 % of the time, which takes rank 2 6 %",
        "54 % of the time it waits in optimizer steps until rank 2 has its gradients, too",
    )
    assert verdict.advice[0].fps[1] > 8000
