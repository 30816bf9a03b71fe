"""The trees that close a log: which are shown, in which order, and what adds up."""

from __future__ import annotations

import pytest

from sample_profiler.profiling import Session, Timing
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.reports.sections.closing_trees import format_trees
from tests.reports.records import make_record


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


def format_recorded(*plains):
    """Return the trees of a run whose processes have recorded these, by component; one process for each argument."""
    processes = [
        make_record(
            trees={name: TreeNode.from_dict(plain) for name, plain in plains_of_process.items()},
            titles={name: plain["name"] for name, plain in plains_of_process.items()},
            paths=[],
        )
        for plains_of_process in plains
    ]
    return format_trees(Session(created_s=0.0, processes=processes), {})


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
    found = titles(format_recorded(plain))
    order = ["Batcher 0", "InferenceWorker_p0-w0", "Learner 0", "Learner 1", "RolloutWorker_w0", "Runner"]
    assert len(found) == len(order)
    assert all(name in title for name, title in zip(order, found, strict=True))


def test_blocks_and_their_seconds_are_in_the_text():
    (text,) = format_recorded({"Batcher_0": make_plain("Batcher 0 profile", batching=1.5, releasing_batches=0.25)})
    assert "batching: 1.5" in text
    assert "releasing_batches: 0.25" in text


def test_of_many_workers_the_first_the_last_the_slowest_and_all_together_are_shown():
    texts = format_recorded(make_workers(2.0, 3.0, 30.0, 4.0, 5.0))
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
    assert shown_workers(format_recorded(make_workers(*seconds))) == ["RolloutWorker_w0", "RolloutWorker_w3"]


def test_workers_are_in_the_order_of_their_numbers():
    seconds = [1.0] * 12
    seconds[9] = 2.0
    assert shown_workers(format_recorded(make_workers(*seconds))) == [
        "RolloutWorker_w0",
        "RolloutWorker_w9",
        "RolloutWorker_w11",
    ]


def test_one_worker_has_no_sum():
    texts = format_recorded(make_workers(1.0))
    assert len(texts) == 1


def test_workers_that_never_stepped_are_shown_too():
    plain = {name: make_plain(f"{name} profile") for name in ("RolloutWorker_w0", "RolloutWorker_w1")}
    assert shown_workers(format_recorded(plain)) == ["RolloutWorker_w0", "RolloutWorker_w1"]


def test_a_run_of_which_only_a_part_reported_shows_that_part():
    assert format_recorded({}) == []
    assert len(format_recorded({"Runner": make_plain("Runner profile")})) == 1
    workers = make_workers(1.0, 2.0, 3.0)
    del workers["RolloutWorker_w0"]
    assert shown_workers(format_recorded(workers)) == ["RolloutWorker_w1", "RolloutWorker_w2"]


def test_components_that_nobody_has_heard_of_come_last_but_before_the_runner():
    plain = {name: make_plain(f"{name} profile") for name in ("Runner", "Oracle", "Batcher_0")}
    assert [title.split()[0] for title in titles(format_recorded(plain))] == ["Batcher_0", "Oracle", "Runner"]


def test_what_a_process_without_a_record_file_has_told_stands_among_the_others():
    session = Session(created_s=0.0, processes=[make_record(trees={"Batcher_0": TreeNode()}, paths=[])])
    texts = format_trees(session, {"Learner_0": make_plain("Learner 0 profile", train=2.0)})
    assert titles(texts) == ["Batcher_0 tree view:", "Learner 0 profile tree view:"]
    assert "train: 2.0" in texts[-1]


def test_processes_that_had_one_place_one_after_the_other_have_one_tree():
    (text,) = format_recorded(make_workers(1.0), make_workers(2.5))
    assert text.startswith("RolloutWorker_w0 profile tree view:")
    assert "env_step: 3.5" in text


def test_timers_of_programs_are_no_component():
    assert format_recorded({"timers": make_plain("Timers", x=1.0), "timers.2": make_plain("Timers", x=1.0)}) == []
