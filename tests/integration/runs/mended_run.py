"""A training script of a user whose environment says a WIDTH of its observations, and BREAKs in some way in step 3."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler import register_env

WIDTH, BREAK = int(os.environ["WIDTH"]), os.environ.get("BREAK", "")


class MendedEnv(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (WIDTH,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self._num_steps = 0
        return np.zeros(WIDTH, np.float32), {}

    def step(self, action):
        self._num_steps += 1
        if self._num_steps == 3 and BREAK:
            self._break()
        return np.zeros(WIDTH, np.float32), 1.0, False, self._num_steps % 20 == 0, {}

    def _break(self):
        while not list(Path(os.environ["RUN"]).glob("checkpoint_p0/*.pth")):
            time.sleep(0.01)
        if BREAK == "raise":
            raise ValueError("broken step")
        # Whoever keeps the books.
        os.kill(os.getpid() if "--serial_mode=True" in sys.argv else os.getppid(), signal.SIGKILL)
        time.sleep(60)  # else it may come to a training step, and its checkpoint, before all have noticed


register_env("mended", lambda *_, **__: MendedEnv())

if __name__ == "__main__":
    from sample_profiler import train

    sys.exit(train())
