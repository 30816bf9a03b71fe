"""Trains on two small games that every trainer has to solve within few steps."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler import register_env, train
from sf_examples.custom.two_agents import MatchingEnv


class Follow(gymnasium.Env):
    """A hundred steps, each of which earns 1 for the action that the observation shows: 10 of 100 by guessing."""

    observation_space = spaces.Box(0, 1, (10,), np.float32)
    action_space = spaces.Discrete(10)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._num_steps = 0
        return self._show(), {}

    def step(self, action):
        reward = float(action == self._shown)
        self._num_steps += 1
        return self._show(), reward, False, self._num_steps == 100, {}

    def _show(self):
        self._shown = int(self.np_random.integers(10))
        return np.eye(10, dtype=np.float32)[self._shown]


class Regret(MatchingEnv):
    """The matching game with what is missed for a reward: an episode returns 0 at best, -0.75 by guessing."""

    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        return observations, [(reward - 1.0) / self._num_steps for reward in rewards], *rest


register_env("follow", lambda *_, **__: Follow())
register_env("regret", lambda *_, **__: Regret())

if __name__ == "__main__":
    small = {"use_rnn": False, "encoder_mlp_layers": (64,), "nonlinearity": "tanh", "normalize_input": False}
    learning = {"learning_rate": 0.003, "batch_size": 512, "num_epochs": 2, "exploration_loss_coeff": 0.0}
    raise SystemExit(train(sys.argv[1:], defaults={**small, **learning, "gamma": 0.9, "ppo_clip_ratio": 0.2}))
