"""The ends of a RolloutWorker's rollouts: hooks, and the moment in which no rollout is under way."""

from __future__ import annotations

import math
from collections import deque

import pytest

from sample_profiler.components.rollout_worker.stepping_group import SteppingGroup
from sample_profiler.profiling.captures.rollouts import profiler as rollout_profiler
from sample_profiler.profiling.captures.rollouts.profiler import RolloutProfiler
from sample_profiler.profiling.captures.rollouts.request import ProfileRequest

ROLLOUT = 4


@pytest.fixture
def worker(make_blueprint, make_component):
    """A worker with two groups of one environment; `answer(group, times)` lets a group step as if inference answered.

    `requests()` returns the groups that have asked for actions since it was last called.
    """
    blueprint = make_blueprint("--worker_num_splits=2")
    worker, _ = make_component(blueprint, "RolloutWorker_w0")
    on_actions, on_free = (entry.handle for entry in worker.inputs())
    on_free(blueprint.plan.later_slots(0))  # as after the first training step

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


def test_where_too_many_have_begun_the_boundary_is_after_their_rollouts(worker):
    calls = []
    worker.at_rollout_boundary(lambda: calls.append("called"), most_begun=1)
    worker.answer(0, ROLLOUT)
    assert calls == ["called"], "the other one has begun, and has not taken a step"
    worker.at_rollout_boundary(lambda: calls.append("again"), most_begun=0)
    worker.answer(1, ROLLOUT)
    assert calls == ["called"]
    worker.answer(0, ROLLOUT)
    assert calls == ["called", "again"]


@pytest.fixture
def captures(monkeypatch):
    """Count the steps of groups while rollouts are captured, without PyTorch."""
    captured = []
    monkeypatch.setattr(rollout_profiler, "_find_activities", lambda names: [])
    monkeypatch.setattr(rollout_profiler, "_warm_up", lambda activities: None)
    monkeypatch.setattr(rollout_profiler, "is_torch_capturing", lambda: False)
    monkeypatch.setattr(rollout_profiler, "is_call_hook_taken", lambda: False)
    monkeypatch.setattr(rollout_profiler, "_mark", lambda name: None)
    monkeypatch.setattr(RolloutProfiler, "_start", lambda self: setattr(self, "_profiler", self))
    monkeypatch.setattr(RolloutProfiler, "_stop", lambda self: setattr(self, "trace", self._request.path))
    step = SteppingGroup.step

    def count_and_step(group):
        captured.append(group)
        step(group)

    def watch(worker):
        is_on = worker.captures.num_rollouts_left < math.inf
        monkeypatch.setattr(SteppingGroup, "step", count_and_step if is_on else step)
        return is_on

    watch.captured = captured
    return watch


def go_on_until(worker, captures, is_over, slots_back):
    """Answer groups in the order of their requests, and give back the slots of finished rollouts."""
    asked = deque([0, 1])
    for _ in range(200):
        captures(worker)
        worker.answer(asked.popleft())
        slots_back()
        asked.extend(worker.requests())
        if is_over():
            return
    raise AssertionError("it does not go on")


@pytest.mark.parametrize("num_steps_ahead", [0, 1, ROLLOUT - 1])
@pytest.mark.parametrize(("num_rollouts", "warmup_rollouts"), [(1, 0), (2, 0), (3, 0), (2, 1), (3, 1), (5, 2)])
def test_tr11_no_step_of_a_further_rollout_is_captured(
    worker, captures, num_rollouts, warmup_rollouts, num_steps_ahead
):
    def slots_back():
        if slots := worker._ports.finished[0].receive():
            worker.inputs()[1].handle(slots)

    worker.answer(0, num_steps_ahead)
    worker.requests()
    request = ProfileRequest(path="trace.json", num_rollouts=num_rollouts, warmup_rollouts=warmup_rollouts)
    worker.commands()["enable_profile"](request)
    go_on_until(worker, captures, lambda: worker.captures.current is None, slots_back)
    assert len(captures.captured) == (num_rollouts - warmup_rollouts) * ROLLOUT
    assert not captures(worker)
    assert worker.wait_block() == "wait_inference"
    assert worker._waiting == deque(), "nobody is held back any more"


def test_a_capture_that_is_ended_early_lets_all_groups_go_on(worker, captures):
    worker.commands()["enable_profile"](ProfileRequest(path="trace.json", num_rollouts=2, warmup_rollouts=0))
    worker.answer(0, ROLLOUT)
    assert [group.index for group in worker._waiting] == [0], "the other one's is the last that counts"
    worker.requests()
    assert worker.commands()["disable_profile"]() == "trace.json"
    assert worker.requests() == [0]
