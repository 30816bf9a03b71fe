"""The ends of a RolloutWorker's rollouts: hooks, and the moment in which no rollout is under way."""

from __future__ import annotations

import pytest

ROLLOUT = 4


@pytest.fixture
def worker(make_blueprint, make_component):
    """A worker with two groups of one environment; `answer(group, times)` lets a group step as if inference answered.

    `requests()` returns the groups that have asked for actions since it was last called.
    """
    blueprint = make_blueprint("--worker_num_splits=2")
    worker, _ = make_component(blueprint, "RolloutWorker_w0")
    on_actions = worker.inputs()[0].handle

    def answer(group, times=1):
        for _ in range(times):
            on_actions([group])

    worker.answer = answer
    worker.requests = blueprint.channels.requests[0][0].receive
    worker.start()
    assert worker.requests() == [0, 1]
    yield worker
    worker.finish()


def test_the_hook_is_told_the_worker_and_the_number_of_the_rollout(worker):
    calls = []
    worker.commands()["set_post_collect_hook"](lambda *told: calls.append(told))
    worker.answer(0, ROLLOUT - 1)
    assert calls == []
    worker.answer(0)
    worker.answer(1, ROLLOUT)
    worker.answer(1, ROLLOUT)
    assert calls == [(0, 0), (0, 1), (0, 2)]
    worker.commands()["set_post_collect_hook"](None)
    worker.answer(0, ROLLOUT)
    assert len(calls) == 3


def test_a_finished_rollout_is_handed_over_before_the_hook_is_called(worker):
    finished = worker._ports.finished[0]
    seen = []
    worker.set_post_collect_hook(lambda *_: seen.append(len(finished.receive())))
    worker.answer(1, ROLLOUT)
    assert seen == [1]


def test_what_a_hook_raises_is_the_workers_failure(worker):
    def hook(worker_idx, rollout):
        raise RuntimeError("no more of this")

    worker.set_post_collect_hook(hook)
    with pytest.raises(RuntimeError, match="no more of this"):
        worker.answer(0, ROLLOUT)
    worker.set_post_collect_hook(None)


def test_the_boundary_is_there_at_once_when_no_step_was_taken(worker):
    calls = []
    worker.at_rollout_boundary(lambda: calls.append("called"))
    assert calls == ["called"]


def test_groups_wait_for_each_other_at_the_boundary_and_then_go_on(worker):
    calls = []
    worker.answer(0, 2)
    worker.answer(1, 1)
    worker.requests()
    worker.at_rollout_boundary(lambda: calls.append("called"))
    worker.answer(0, 2)
    assert worker.requests() == [0], "the last step of its rollout, and nothing beyond"
    assert calls == []
    worker.answer(1, 3)
    assert calls == ["called"]
    assert worker.requests() == [1, 1, 0, 1], "its own last steps, then both groups begin, who waited longer first"
    worker.answer(0, ROLLOUT)
    assert worker.requests() == [0, 0, 0, 0], "nobody waits any more"
    assert calls == ["called"]


def test_a_group_that_has_begun_and_not_stepped_does_not_delay_the_boundary(worker):
    calls = []
    worker.answer(0, ROLLOUT)  # has begun its next rollout
    worker.answer(1, 1)
    worker.at_rollout_boundary(lambda: calls.append("called"))
    worker.answer(1, ROLLOUT - 1)
    assert calls == ["called"]
