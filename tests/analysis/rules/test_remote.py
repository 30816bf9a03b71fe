"""Trajectories of other machines that take long to come."""

from __future__ import annotations

import pytest

from sample_profiler.config import parse_config
from tests.analysis.made_runs import inference, judge_run, learner, load, worker


def judge_remote(way_share, learner_busy=0.3):
    workers = [worker(0, busy=0.5, inference=0.5, learner=0.0)]
    blocks = {"timers": 0.08, "timers/take_answers": 0.08}
    sampler = load("RemoteSampler", 0.1, {"actors": 0.9}, blocks, gauges={"way_share": way_share})
    return judge_run(*workers, inference(0.3), learner(learner_busy), sampler, machine_busy=0.5)


def test_where_the_learner_waits_and_datasets_are_on_the_way_most_of_the_time_that_is_named():
    verdict = judge_remote(0.8)
    assert (verdict.cause, verdict.component) == ("remote trajectories", "RemoteSampler")
    assert verdict.evidence == (
        "Learner_0 waits 70 % of the time for data",
        "of the time for which actors are asked for a dataset, it and its weights are on the way for 80 %",
        "RemoteSampler itself works 10 % of the time: take_answers 8 %",
    )
    assert parse_config(["--env=any", verdict.advice[0].change]).sampling.batch_size == 4096


@pytest.mark.parametrize(("way_share", "learner_busy"), [(0.3, 0.3), (0.9, 0.95)])
def test_who_samples_most_of_that_time_or_has_a_learner_that_never_waits_has_no_use_for_a_faster_way(
    way_share, learner_busy
):
    assert judge_remote(way_share, learner_busy).cause != "remote trajectories"
