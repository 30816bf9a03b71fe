"""Trains on an environment of one's own: ``python -m sf_examples.custom.train_custom_env``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from sample_profiler.envs import register_env
from sample_profiler.profiling import get_timing


class ReachEnv(gymnasium.Env[Any, Any]):
    """A point on a line has to reach a target: push left, push right or let it slide."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Put point and target somewhere; a seed makes it the same place every time."""
        super().reset(seed=seed, options=options)
        self.position, self.target = self.np_random.uniform(-1.0, 1.0, 2)
        self.speed, self.num_steps = 0.0, 0
        return self.observe(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Push the point. Timing blocks appear below the rollout worker's env_step when the run ends."""
        with get_timing().add_time("physics"):
            self.speed = 0.9 * self.speed + 0.02 * (action - 1)
            self.position += self.speed
        with get_timing().add_time("observe"):
            observation = self.observe()
        self.num_steps += 1
        distance = abs(self.position - self.target)
        # Terminated: the target is reached. Truncated: time is up, though it could have gone on.
        return observation, -distance, distance < 0.02, self.num_steps >= 100, {}

    def observe(self) -> Any:
        """Return what the agent sees."""
        return np.array([self.position, self.target, self.speed], np.float32)


# The function is called with (full_env_name, cfg, env_config, render_mode=...); this one needs none of them.
register_env("custom_reach", lambda *_, **__: ReachEnv())
DEFAULTS = {"env": "custom_reach", "experiment": "custom_reach", "use_rnn": False, "train_for_env_steps": 200_000}


def main(argv: Sequence[str] | None = None) -> int:
    """Train; flags on the command line replace the defaults above."""
    from sample_profiler.cli.train import train

    return train(argv, defaults=DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
