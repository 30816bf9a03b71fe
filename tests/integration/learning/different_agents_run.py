"""Trains, plays and evaluates agents with spaces of their own; with `--env=parallel`, by PettingZoo's interface.

A caller sees which of three doors is open, as one number, and says so in two of its own; a walker hears a picture, and
goes. All see something else in each step, and are rewarded where they do what they see.
"""

from __future__ import annotations

import sys

import numpy as np
from gymnasium import spaces

from sample_profiler import enjoy, evaluate, register_env, train

NUMBER, PICTURE = spaces.Discrete(3), spaces.Dict({"picture": spaces.Box(0, 1, (2, 3), np.float32)})
CHOICE, PAIR = spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)


class Doors:
    """Eight steps; the first and the third agent are callers, the second is the walker."""

    num_agents = 3

    def __init__(self):
        self.observation_space = [NUMBER, PICTURE, NUMBER]
        self.action_space = [PAIR, CHOICE, PAIR]

    def reset(self, *, seed=None, options=None):
        self._rng = np.random.default_rng(seed) if seed is not None else self._rng
        self._num_steps = 0
        return self._show(), [{}] * 3

    def step(self, actions):
        rewards = [self._reward(*each) for each in zip(self._doors, actions, strict=True)]
        self._num_steps += 1
        is_over = [self._num_steps == 8] * 3
        return self._show(), rewards, is_over, [False] * 3, [{}] * 3

    def close(self):
        """Nothing."""

    def _show(self):
        self._doors = self._rng.integers(3, size=3).tolist()
        picture = np.zeros((2, 3), np.float32)
        picture[:, self._doors[1]] = 1
        return [self._doors[0], {"picture": picture}, self._doors[2]]

    def _reward(self, door, action):
        if np.shape(action) == ():
            return float(action == door)
        return float(np.sign(action[0]) == (-1, 1, 1)[door]) * (door < 2 or float(action[1] > 0))


class Parallel:
    """The same by PettingZoo's interface."""

    possible_agents = ("first", "walker", "second")

    def __init__(self):
        self._doors = Doors()

    def observation_space(self, agent):
        return self._doors.observation_space[self.possible_agents.index(agent)]

    def action_space(self, agent):
        return self._doors.action_space[self.possible_agents.index(agent)]

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return tuple(map(self._named, self._doors.reset(seed=seed)))

    def step(self, actions):
        result = self._doors.step(list(actions.values()))
        self.agents = [] if result[2][0] else self.agents
        return tuple(map(self._named, result))

    def close(self):
        """Nothing."""

    def _named(self, values):
        return dict(zip(self.possible_agents, values, strict=True))


register_env("lists", lambda *_, **__: Doors())
register_env("parallel", lambda *_, **__: Parallel())

if __name__ == "__main__":
    do = {"train": train, "enjoy": enjoy, "eval": evaluate}[sys.argv[1]]
    defaults = {"use_rnn": False, "encoder_mlp_layers": [32], "learning_rate": 0.003}
    raise SystemExit(do(sys.argv[2:], defaults=defaults))
