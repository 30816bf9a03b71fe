"""A RolloutWorker tells its environments how far the training is: before the first reset, and then again and again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.envs import register_env


class Told(gymnasium.Env):
    """Notes what it is told and when it is reset."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, notes):
        self.notes = notes

    def set_training_info(self, info):
        self.notes.append(info["approx_total_training_steps"])

    def reset(self, *, seed=None, options=None):
        self.notes.append("reset")
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}


class TwoAgents(Told):
    num_agents = 2

    def reset(self, **keywords):
        observation, info = super().reset(**keywords)
        return [observation] * 2, [info] * 2


@pytest.fixture
def make_worker(make_blueprint, make_component, tmp_path):
    """Return a RolloutWorker of two environments, the counters, and what each environment notes."""

    def make(*flags, kind=Told, checkpoint=None):
        notes = []

        def make_env(*_, **__):
            notes.append([])
            return kind(notes[-1])

        register_env("wandering", make_env)
        if checkpoint:
            folder = tmp_path / "checkpoint_p0"
            folder.mkdir()
            for name in checkpoint:
                (folder / name).touch()
        blueprint = make_blueprint(*flags, env=kind([]))
        worker, _ = make_component(blueprint, "RolloutWorker_w0")
        return worker, blueprint, notes

    return make


def run_timers(worker):
    for timer in worker.timers():
        timer.callback()


def test_environments_are_told_before_their_first_reset_and_when_more_has_been_trained_on(make_worker):
    worker, blueprint, notes = make_worker()
    assert notes == [[], []]
    worker.start()
    assert notes == [[0, "reset"], [0, "reset"]]
    run_timers(worker)
    assert notes == [[0, "reset"], [0, "reset"]], "nothing is new"
    blueprint.counters.trained_frames[0] = 640
    run_timers(worker)
    assert notes == [[0, "reset", 640], [0, "reset", 640]]


@pytest.mark.parametrize(
    ("flags", "expected"), [((), 900), (("--load_checkpoint_kind=best",), 300)], ids=["latest", "best"]
)
def test_a_run_that_goes_on_tells_where_it_goes_on_before_its_learner_says_so(make_worker, flags, expected):
    names = ["checkpoint_000000002_400.pth", "checkpoint_000000009_900.pth", "best_000000001_300_reward_1.000.pth"]
    worker, blueprint, notes = make_worker(*flags, checkpoint=names)
    worker.start()
    assert notes[0] == [expected, "reset"]
    blueprint.counters.trained_frames[0] = expected
    run_timers(worker)
    assert notes[0] == [expected, "reset"]
    blueprint.counters.trained_frames[0] = expected + 8
    run_timers(worker)
    assert notes[0][-1] == expected + 8


def test_a_rank_without_checkpoints_waits_for_what_its_learner_hears_of_them(make_component, make_worker):
    _, blueprint, notes = make_worker()
    worker, _ = make_component(replace(blueprint, first_frames=None), "RolloutWorker_w0")
    with ThreadPoolExecutor(1) as threads:
        starting = threads.submit(worker.start)
        with pytest.raises(TimeoutError):
            starting.result(0.1)
        assert notes[2:] == [[], []]
        blueprint.counters.trained_frames[0] = 900
        blueprint.counters.has_begun[0] = True
        starting.result()
    assert notes[2:] == [[900, "reset"], [900, "reset"]]


def test_where_a_run_repeats_itself_rollouts_decide_and_no_clock(make_worker):
    worker, blueprint, notes = make_worker("--serial_mode=True", "--async_rl=False")
    worker.start()
    blueprint.counters.trained_frames[0] = 640
    run_timers(worker)
    assert notes[0] == [0, "reset"]
    for _ in range(4):
        worker.inputs()[0].handle([0])
    assert notes[0] == [0, "reset"], "the next rollout waits for slots"
    slots = [slot for channel in blueprint.channels.finished for slot in channel.receive()]
    worker.inputs()[1].handle(slots)
    assert notes[0] == [0, "reset", 640]


def test_an_environment_is_told_of_the_policy_that_its_first_agent_follows(make_worker):
    worker, blueprint, notes = make_worker("--num_policies=2", kind=TwoAgents)
    first_policies = [group.policies[0] for group in blueprint.plan.groups]
    assert len(blueprint.plan.groups) == 1
    blueprint.counters.trained_frames[:] = 10, 20
    worker.start()
    group = blueprint.plan.groups[0]
    assert [note[0] for note in notes] == [10 * (1 + group.policies[2 * env]) for env in range(2)]
    assert first_policies == [0]


def test_no_timer_rings_for_environments_that_want_to_know_nothing(make_worker, make_blueprint, make_component):
    told, _, _ = make_worker()
    register_env("wandering", lambda *_, **__: gymnasium.make("CartPole-v1"))
    worker, _ = make_component(make_blueprint(env=gymnasium.make("CartPole-v1")), "RolloutWorker_w0")
    assert len(worker.timers()) == len(told.timers()) - 1
