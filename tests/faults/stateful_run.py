"""A training command whose environment `walk` can be put back to where it was; `stroll` is the same and cannot."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler.cli.train import train
from sample_profiler.envs import register_env


class Stroll(gymnasium.Env):
    """Random observations, and a reward for the right one of two actions; episodes of random length."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(3, 40))
        self._place = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self._place.copy(), {}

    def step(self, action):
        reward = float(action == (self._place[0] > 0)) + 0.1 * float(self.np_random.random())
        self._left -= 1
        self._place = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        is_terminated = self._left == 0 and self._place[1] > 0
        return self._place.copy(), reward, bool(is_terminated), self._left == 0 and not is_terminated, {}


class Walk(Stroll):
    def get_state(self):
        return {"random": self.np_random.bit_generator.state, "left": self._left, "place": self._place.copy()}

    def set_state(self, state):
        self.np_random.bit_generator.state = state["random"]
        self._left, self._place = state["left"], state["place"]


def main() -> int:
    register_env("walk", lambda *_, **__: Walk())
    register_env("stroll", lambda *_, **__: Stroll())
    return train()


if __name__ == "__main__":
    sys.exit(main())
