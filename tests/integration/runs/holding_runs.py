"""A training script whose last environment takes the mutex of a queue, named by HOLD, and then the signal END."""

from __future__ import annotations

import gc
import os
import sys

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler import register_env
from sample_profiler.runtime.messages.fifo_queue import FifoQueue


class HoldingEnv(gymnasium.Env):
    """Episodes of 20 steps; does what it is for in its 60th step, once in a run: then the file DONE is there."""

    def __init__(self, placement) -> None:
        self.observation_space = spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._is_last = placement is not None and placement.env_id == 3
        self._num_steps = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self._num_steps += 1
        if self._is_last and self._num_steps == 60 and not os.path.exists(os.environ["DONE"]):
            open(os.environ["DONE"], "w").close()
            queues = {queue.reader: queue for queue in gc.get_objects() if isinstance(queue, FifoQueue)}
            queues[os.environ["HOLD"]]._lock()
            os.kill(os.getpid(), int(os.environ["END"]))
        return np.zeros(3, np.float32), 1.0, False, self._num_steps % 20 == 0, {}


register_env("holding", lambda name, cfg, placement, render_mode=None: HoldingEnv(placement))

if __name__ == "__main__":
    from sample_profiler import train

    sys.exit(train())
