"""A training script of a user whose environments count their steps in a file, named by COUNTS, for others to see."""

from __future__ import annotations

import mmap
import os
import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler import register_env
from sample_profiler.timers import set_gauge

MAX_ENVS = 64


class CountingEnv(gymnasium.Env):
    """Counts its steps, and the nanoseconds that it spends in them, in a file of pairs of 8 bytes."""

    def __init__(self, placement) -> None:
        self.observation_space = spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._counts = None
        if placement is not None:
            with open(os.environ["COUNTS"], "r+b") as file:
                self._counts = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
            self._place = 2 * placement.env_id
        self._num_steps = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        start_ns = time.perf_counter_ns()
        self._num_steps += 1
        set_gauge("steps_of_an_env", self._num_steps)
        while time.perf_counter_ns() - start_ns < 300_000:
            pass
        self._counts[self._place + 1] += time.perf_counter_ns() - start_ns
        self._counts[self._place] += 1
        return np.zeros(3, np.float32), 1.0, False, self._num_steps % 20 == 0, {}


register_env("counting", lambda name, cfg, placement, render_mode=None: CountingEnv(placement))

if __name__ == "__main__":
    from sample_profiler import train

    sys.exit(train())
