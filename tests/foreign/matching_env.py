"""The task of a run that Sample Factory has trained: what it has learned is seen in its return."""

from __future__ import annotations

import gymnasium
import numpy as np


class MatchingEnv(gymnasium.Env):
    """Ten steps, each of which earns 1 for the button that is shown, of four: 10 at best, 2.5 by guessing."""

    observation_space = gymnasium.spaces.Box(-1, 1, (5,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._shown = self._num_steps = 0

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._num_steps = 0
        return self._show(), {}

    def step(self, action):
        reward = float(action == self._shown)
        self._num_steps += 1
        return self._show(), reward, self._num_steps == 10, False, {}

    def _show(self):
        self._shown = int(self._rng.integers(4))
        observation = np.full(5, -1, np.float32)
        observation[self._shown] = 1
        return observation
