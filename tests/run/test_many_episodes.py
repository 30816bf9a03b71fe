"""Many episodes at once: fair shares, all that go wrong in a process is said, and nothing is left behind."""

from __future__ import annotations

import os
import time

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.config import parse_config
from sample_profiler.envs import inspect_env, register_env
from sample_profiler.errors import EnvError
from sample_profiler.model import make_actor_critic
from sample_profiler.policies import PlayedPolicies
from sample_profiler.run.many_episodes import ManyEpisodes, play_many

FLAGS = ("--env=counting", "--use_rnn=False", "--encoder_mlp_layers", "8", "--seed=1")


def make_counting(index=0, *, fails_in="", num_agents=1):
    """Make an environment whose episodes have a length of its worker's own, and that may fail in its third episode."""

    class Counting(gymnasium.Env):
        observation_space = spaces.Box(-1, 1, (2,), np.float32)
        action_space = spaces.Discrete(2)
        num_episodes = 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.num_steps = 0
            self.num_episodes += 1
            if self.num_episodes == 3 and fails_in == "raise":
                raise ZeroDivisionError("of the environment")
            if self.num_episodes == 3 and fails_in == "exit":
                os._exit(3)
            if self.num_episodes == 3 and fails_in == "hang":
                time.sleep(100)
            return self.observe(), {}

        def step(self, action):
            self.num_steps += 1
            is_over = self.num_steps == 3 * (index + 1)
            info = {"episode_extra_stats": {"worker": index}, "true_objective": self.np_random.random()}
            return self.observe(), 1.0, is_over, False, info if is_over else {}

        def observe(self):
            return self.np_random.uniform(-1, 1, 2).astype(np.float32)

    class Two(Counting):
        num_agents = 2

        def reset(self, **keywords):
            observation, info = super().reset(**keywords)
            return [observation] * 2, [info] * 2

        def step(self, actions):
            observation, reward, is_over, _, info = super().step(actions[0])
            return [observation] * 2, [reward, 2 * reward], [is_over] * 2, [False] * 2, [info] * 2

    return Two() if num_agents == 2 else Counting()


@pytest.fixture
def make_many(make_blueprint, make_component, tmp_path):
    """Return what `play_many` takes, of a policy that nobody has trained."""

    def make(num_episodes=5, num_workers=2, flags=(), **how):
        def make_env(name, cfg, placement, render_mode=None):
            return make_counting(placement.worker_index if placement else 0, **how)

        make_blueprint()  # with an empty registry
        register_env("counting", make_env)
        config = parse_config([*FLAGS, *flags])
        spec = inspect_env(make_counting(**how))
        torch.manual_seed(0)
        model = make_actor_critic(config.model, config.observations, spec.observation_space, spec.action_space)
        state = {"model": model.state_dict(), "frames": 640}
        played = PlayedPolicies((0,) * spec.num_agents, 0, {0: state})
        return ManyEpisodes(config, spec, played, num_episodes, num_workers, False, seed=1)

    return make


@pytest.mark.parametrize(
    ("num_episodes", "num_workers", "shares"), [(5, 2, [3, 2]), (2, 8, [1, 1]), (6, 3, [2, 2, 2]), (1, 1, [1])]
)
def test_shares_are_as_even_as_can_be(make_many, num_episodes, num_workers, shares):
    assert make_many(num_episodes, num_workers).shares == shares


@pytest.mark.whole_run
def test_each_worker_plays_its_share_whatever_its_episodes_take(make_many):
    told = []
    played = play_many(make_many(), told.append)
    assert sorted(told, key=lambda each: (each.worker, each.number)) == played
    assert [(each.worker, each.number) for each in played] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert [each.episode.num_frames for each in played] == [3, 3, 3, 6, 6]
    assert [each.episode.rewards for each in played] == [(3.0,)] * 3 + [(6.0,)] * 2
    assert [each.episode.extra["worker"] for each in played] == [0, 0, 0, 1, 1]
    drawn = [each.episode.extra["true_objective"] for each in played]
    assert len(set(drawn)) == 5, "each worker has random numbers of its own"
    again = play_many(make_many(), lambda _: None)
    assert [each.episode for each in again] == [each.episode for each in played], "and the same ones for a seed"


@pytest.mark.whole_run
def test_agents_are_told_apart(make_many):
    (only,) = play_many(make_many(1, num_agents=2), lambda _: None)
    assert only.episode.rewards == (3.0, 6.0)


@pytest.mark.whole_run
@pytest.mark.parametrize(
    ("fails_in", "message"),
    [
        ("raise", r"EvaluationWorker_w\d failed: EnvError: environment \d \(counting\) raised in reset: ZeroDivision"),
        ("exit", r"EvaluationWorker_w\d has ended: its process exited with status 3"),
        ("hang", r"EvaluationWorker_w\d hangs: it has given no sign of life for 4 s \(--hang_timeout\)"),
    ],
)
def test_what_goes_wrong_in_a_worker_is_said(make_many, fails_in, message):
    told = []
    flags = ("--hang_timeout=4", "--heartbeat_interval=1")
    with pytest.raises(EnvError, match=message) as caught:
        play_many(make_many(9, flags=flags, fails_in=fails_in), told.append)
    assert fails_in != "raise" or "of the environment" in str(caught.value.__cause__)
    assert len(told) >= 2, "those that were played before"
