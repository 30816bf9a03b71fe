"""The trees that close a log: which are shown, in which order, and what adds up."""

from __future__ import annotations

import pytest

from sample_profiler.profiling import Timing
from sample_profiler.reports.trees import format_trees


class Clock:
    now_ns = 0

    def __call__(self):
        return self.now_ns


def make_plain(title, **blocks_s):
    clock = Clock()
    timing = Timing(title, clock_ns=clock)
    for name, seconds in blocks_s.items():
        with timing.add_time(name):
            clock.now_ns += round(seconds * 1e9)
    return timing.to_dict()


def make_workers(*env_step_s):
    return {
        f"RolloutWorker_w{index}": make_plain(f"RolloutWorker_w{index} profile", env_step=seconds, wait=1.0)
        for index, seconds in enumerate(env_step_s)
    }


def titles(texts):
    return [text.splitlines()[0] for text in texts]


def shown_workers(texts):
    return [title.split()[0] for title in titles(texts) if "RolloutWorker_w" in title]


def test_components_come_in_the_order_of_the_design_whatever_finished_first():
    plain = {
        "Runner": make_plain("Runner profile", main_loop=9.0),
        **make_workers(1.0),
        "Learner_1": make_plain("Learner 1 profile"),
        "Learner_0": make_plain("Learner 0 profile"),
        "Batcher_0": make_plain("Batcher 0 profile"),
        "InferenceWorker_p0-w0": make_plain("InferenceWorker_p0-w0 profile"),
    }
    found = titles(format_trees(plain))
    order = ["Batcher 0", "InferenceWorker_p0-w0", "Learner 0", "Learner 1", "RolloutWorker_w0", "Runner"]
    assert len(found) == len(order)
    assert all(name in title for name, title in zip(order, found, strict=True))


def test_blocks_and_their_seconds_are_in_the_text():
    (text,) = format_trees({"Batcher_0": make_plain("Batcher 0 profile", batching=1.5, releasing_batches=0.25)})
    assert "batching: 1.5" in text
    assert "releasing_batches: 0.25" in text


def test_of_many_workers_the_first_the_last_the_slowest_and_all_together_are_shown():
    texts = format_trees(make_workers(2.0, 3.0, 30.0, 4.0, 5.0))
    assert [title.split()[0] for title in shown_workers(texts)] == [
        "RolloutWorker_w0",
        "RolloutWorker_w2",
        "RolloutWorker_w4",
    ]
    assert "all 5" in titles(texts)[-1]
    assert "env_step: 44" in texts[-1]


@pytest.mark.parametrize("slowest", [0, 3])
def test_the_slowest_is_not_shown_twice(slowest):
    seconds = [1.0, 1.0, 1.0, 1.0]
    seconds[slowest] = 5.0
    assert shown_workers(format_trees(make_workers(*seconds))) == ["RolloutWorker_w0", "RolloutWorker_w3"]


def test_workers_are_in_the_order_of_their_numbers():
    seconds = [1.0] * 12
    seconds[9] = 2.0
    assert shown_workers(format_trees(make_workers(*seconds))) == [
        "RolloutWorker_w0",
        "RolloutWorker_w9",
        "RolloutWorker_w11",
    ]


def test_one_worker_has_no_sum():
    texts = format_trees(make_workers(1.0))
    assert len(texts) == 1


def test_workers_that_never_stepped_are_shown_too():
    plain = {name: make_plain(f"{name} profile") for name in ("RolloutWorker_w0", "RolloutWorker_w1")}
    assert shown_workers(format_trees(plain)) == ["RolloutWorker_w0", "RolloutWorker_w1"]


def test_a_run_of_which_only_a_part_reported_shows_that_part():
    assert format_trees({}) == []
    assert len(format_trees({"Runner": make_plain("Runner profile")})) == 1
    workers = make_workers(1.0, 2.0, 3.0)
    del workers["RolloutWorker_w0"]
    assert shown_workers(format_trees(workers)) == ["RolloutWorker_w1", "RolloutWorker_w2"]


def test_components_that_nobody_has_heard_of_come_last_but_before_the_runner():
    plain = {name: make_plain(f"{name} profile") for name in ("Runner", "Oracle", "Batcher_0")}
    assert [title.split()[0] for title in titles(format_trees(plain))] == ["Batcher_0", "Oracle", "Runner"]
