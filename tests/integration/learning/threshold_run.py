"""Trains on two games that users of such trainers expect to be solved within few steps; after `enjoy`, plays them.

Both show images of noise, which say nothing, to an encoder of their own and a recurrent core: one action has to be
found that is right whatever is seen.
"""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler import enjoy, register_encoder, register_env, train


class Ladder(gymnasium.Env):
    """A thousand steps, each of which earns a hundredth of its action's number, 0 to 9: 90 at best, 45 by guessing."""

    observation_space = spaces.Box(0, 1, (1, 10, 10), np.float32)
    action_space = spaces.Discrete(10)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._num_steps = 0
        return self._noise(), {}

    def step(self, action):
        self._num_steps += 1
        is_over = self._num_steps == 1000
        return self._noise(), 0.01 * action, is_over, is_over, {}

    def _noise(self):
        return self.np_random.random((1, 10, 10), np.float32)


class Agree:
    """Ten steps in which two agents each lose 1 whenever their actions differ: 0 at best, -5 by guessing.

    Images change from step to step: ones that stay would tell environments apart, and two agents could agree on another
    action in each of them, which is learned by heart and of no use elsewhere. Now and then an agent is inactive for a
    while, and loses nothing then.
    """

    num_agents = 2
    observation_space = spaces.Box(0, 1, (1, 8, 8), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self):
        self._rng = None
        self._inactive_steps = [3, 3]

    def reset(self, *, seed=None, options=None):
        self._rng = self._rng or np.random.default_rng(seed)
        self._num_steps = 0
        return self._noise(), [{}, {}]

    def step(self, actions):
        are_active = [self._is_active(agent) for agent in range(2)]
        rewards = [-float(is_active and actions[0] != actions[1]) for is_active in are_active]
        self._num_steps += 1
        is_over = [self._num_steps == 10] * 2
        return self._noise(), rewards, is_over, is_over, [{"is_active": is_active} for is_active in are_active]

    def close(self):
        """Nothing."""

    def _noise(self):
        return [self._rng.random((1, 8, 8), np.float32) for _ in range(2)]

    def _is_active(self, agent):
        if self._inactive_steps[agent]:
            self._inactive_steps[agent] -= 1
        elif self._rng.random() < 0.005:
            self._inactive_steps[agent] = int(self._rng.integers(1, 49))
        return not self._inactive_steps[agent]


def make_encoder(cfg, observation_space):
    import torch
    from torch import nn

    class SmallImage(nn.Module):
        def __init__(self):
            super().__init__()
            first, second = nn.Conv2d(1, 8, 3, stride=2), nn.Conv2d(8, 16, 2)
            self.layers = nn.Sequential(first, nn.ELU(), second, nn.ELU(), nn.Flatten())
            self.output_size = self.layers(torch.zeros(1, *observation_space["obs"].shape)).shape[1]

        def forward(self, observations):
            return self.layers(observations["obs"])

    return SmallImage()


register_env("ladder", lambda *_, **__: Ladder())
register_env("agree", lambda *_, **__: Agree())
register_encoder(make_encoder)

if __name__ == "__main__":
    defaults = {"rnn_size": 128, "learning_rate": 0.001, "decorrelate_envs_on_one_worker": False}
    is_playing = sys.argv[1:2] == ["enjoy"]
    raise SystemExit((enjoy if is_playing else train)(sys.argv[1 + is_playing :], defaults=defaults))
