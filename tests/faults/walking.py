"""Two small environments, one of which can be put back to where it was, and the flags of small, repeatable runs."""

from __future__ import annotations

import signal

import gymnasium
import numpy as np
from gymnasium import spaces

FLAGS = (
    *("--serial_mode=True", "--async_rl=False", "--seed=3", "--device=cpu", "--num_workers=2", "--rollout=8"),
    *("--num_envs_per_worker=4", "--encoder_mlp_layers", "16", "--rnn_size=8", "--value_bootstrap=True"),
    *("--flight_recorder_mb=0", "--save_best_after=0", "--stats_avg=25"),
)


class Stroll(gymnasium.Env):
    """Random observations, and a reward for the right one of two actions; episodes of random length."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)
    steps_to_interrupt = -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(3, 40))
        self._place = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self._place.copy(), {}

    def step(self, action):
        Stroll.steps_to_interrupt -= 1
        if Stroll.steps_to_interrupt == 0:
            signal.raise_signal(signal.SIGINT)
        reward = float(action == (self._place[0] > 0)) + 0.1 * float(self.np_random.random())
        self._left -= 1
        self._place = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        is_terminated = self._left == 0 and self._place[1] > 0
        return self._place.copy(), reward, bool(is_terminated), self._left == 0 and not is_terminated, {}


class Walk(Stroll):
    """The same, and can be put back to where it was."""

    def get_state(self):
        return {"random": self.np_random.bit_generator.state, "left": self._left, "place": self._place.copy()}

    def set_state(self, state):
        # Not reset before: np_random makes a generator at its first use.
        self.np_random.bit_generator.state = state["random"]
        self._left, self._place = state["left"], state["place"]
