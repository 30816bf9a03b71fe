"""Train CartPole-v1 with one thing spoilt on purpose, so that it learns badly: for checks of the second verdict.

What is spoilt is said in the environment variable SPOILT: "nothing", a name that flags alone make so, or one of
"large input" (a number of ten thousand beside the others), "equal seeds", "aliasing" (states are told apart roughly).
"""

from __future__ import annotations

import os
import sys
from typing import Any

import gymnasium
import numpy as np

from sample_profiler import register_env, train

SPOILT = os.environ.get("SPOILT", "nothing")
_LARGE = 1e4
_COARSE = 2.0


class SpoiltEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Observes too much or too little, or begins as all others do."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._seeds = np.random.default_rng(0)
        self._step = 0
        num_inputs = 5 if SPOILT == "large input" else 4
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (num_inputs,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode."""
        if SPOILT == "equal seeds":
            seed = int(self._seeds.integers(1 << 30))
        observation, infos = self.env.reset(seed=seed, options=options)
        return self._observe(observation), infos

    def step(self, action: Any) -> Any:
        """Step."""
        self._step += 1
        observation, *rest = self.env.step(action)
        return self._observe(observation), *rest

    def _observe(self, observation: Any) -> Any:
        if SPOILT == "large input":
            observation = [*observation, _LARGE * np.sin(self._step)]
        if SPOILT == "aliasing":
            observation = np.round(np.asarray(observation) / _COARSE) * _COARSE
        return np.asarray(observation, np.float32)


def make_spoilt_env(_name: str, _cfg: Any, _placement: Any, render_mode: str | None = None) -> Any:
    """Make one environment."""
    return SpoiltEnv(gymnasium.make("CartPole-v1", render_mode=render_mode))


register_env("spoilt", make_spoilt_env)

if __name__ == "__main__":
    sys.exit(train(defaults={"env": "spoilt", "use_rnn": False}))
