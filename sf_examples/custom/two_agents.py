"""A game for two agents, each of which may be another policy: see a cue, name it, and name the same as the other.

``python -m sf_examples.custom.two_agents --num_policies=2``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sample_profiler.envs import EnvPlacement, register_env

__all__ = ["MatchingEnv", "main", "make_matching_env"]

Observations = list[NDArray[np.float32]]


class MatchingEnv:
    """Both agents see the same cue, one of four, and the agent's own number.

    In each step an agent earns 0.5 for naming the cue and 0.5 if both name the same: at most 1, by guessing 0.25. An
    episode is cut off after ``num_steps`` steps; its final observation is a new cue.
    """

    num_agents = 2
    num_cues = 4

    def __init__(self, num_steps: int = 32) -> None:
        """Set the length of episodes."""
        self.observation_space = spaces.Box(0.0, 1.0, (self.num_cues + self.num_agents,), np.float32)
        self.action_space = spaces.Discrete(self.num_cues)
        self._num_steps = num_steps
        self._step = 0
        self._cue = 0
        self._rng = np.random.default_rng()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, list[dict[str, Any]]]:
        """Start an episode."""
        del options
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._step = 0
        return self._show_cue(), [{} for _ in range(self.num_agents)]

    def step(
        self, actions: Sequence[int]
    ) -> tuple[Observations, list[float], list[bool], list[bool], list[dict[str, Any]]]:
        """Take the actions of both agents."""
        is_match = actions[0] == actions[1]
        rewards = [0.5 * (action == self._cue) + 0.5 * is_match for action in actions]
        self._step += 1
        is_over = self._step >= self._num_steps
        agents = range(self.num_agents)
        return self._show_cue(), rewards, [False for _ in agents], [is_over for _ in agents], [{} for _ in agents]

    def close(self) -> None:
        """Do nothing: there is nothing to end."""

    def _show_cue(self) -> Observations:
        self._cue = int(self._rng.integers(self.num_cues))
        observations = np.zeros((self.num_agents, self.num_cues + self.num_agents), np.float32)
        observations[:, self._cue] = 1.0
        for agent in range(self.num_agents):
            observations[agent, self.num_cues + agent] = 1.0
        return list(observations)


def make_matching_env(
    _full_env_name: str, _cfg: Any, _env_config: EnvPlacement | None, render_mode: str | None = None
) -> MatchingEnv:
    """Make the game, for :func:`sample_profiler.envs.register_env`."""
    del render_mode
    return MatchingEnv()


register_env("custom_matching", make_matching_env)

DEFAULTS = {
    "encoder_mlp_layers": (64, 64),
    "env": "custom_matching",
    "experiment": "custom_matching",
    "train_for_env_steps": 200_000,
    "use_rnn": False,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Train.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if the run ended well.
    """
    from sample_profiler.cli.train import train

    return train(argv, defaults=DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
