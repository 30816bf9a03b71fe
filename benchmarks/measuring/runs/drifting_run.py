"""Train on a task whose steps become dearer, leak or learn ever more slowly, on purpose: to check what is said.

What drifts is said in the environment variable DRIFTS, one of `DRIFTS`; what begins in between, begins after 30 s.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from sample_profiler import register_encoder, register_env, train

DRIFTS = ("nothing", "leak", "at once", "within a minute", "one worker", "by the return", "learner")
DRIFT = os.environ.get("DRIFTS", "nothing")
BEGIN_S = 30.0
_STEP_S = 0.0003
_LEAK_BYTES = 1024
_LONGER = 30_000  # is a list with each batch that the Learner goes through


class DriftingEnv(gymnasium.Env[Any, Any]):
    """Computes for a while in each step, of an episode of fifty."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (24,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, worker: int) -> None:
        self._worker = worker
        self._kept: list[bytes] = []
        self._begun_s: float | None = None
        self._return = 0.0
        self._step = 0
        self._state = np.zeros(24, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode."""
        super().reset(seed=seed, options=options)
        self._step, self._return = 0, 0.0
        self._state = self.np_random.normal(size=24).astype(np.float32)
        return self._state, {}

    def step(self, action: Any) -> Any:
        """Compute, as long as it takes by now; a reward is for one of the four actions."""
        now_s = time.monotonic()
        self._begun_s = now_s if self._begun_s is None else self._begun_s
        _compute(_STEP_S * self._dearness(now_s - self._begun_s))
        if DRIFT == "leak" and self._worker == 1:
            self._kept.append(bytes(_LEAK_BYTES))
        self._step += 1
        self._state = (0.9 * self._state + 0.1 * self.np_random.normal(size=24)).astype(np.float32)
        reward = float(action == 1)
        self._return += reward
        return self._state, reward, False, self._step >= 50, {}

    def _dearness(self, age_s: float) -> float:
        if DRIFT == "at once" or (DRIFT == "one worker" and self._worker == 1):
            return 4.0 if age_s > BEGIN_S else 1.0
        if DRIFT == "within a minute":
            return 1 + 3 * min(1.0, age_s / 60)
        if DRIFT == "learner":  # which is to have a part in the pace
            return 0.1
        return 1 + self._return / 10 if DRIFT == "by the return" else 1.0


def _compute(seconds: float) -> None:
    end_ns = time.thread_time_ns() + round(1e9 * seconds)
    while time.thread_time_ns() < end_ns:
        pass


def make_drifting_env(_name: str, _cfg: Any, placement: Any, render_mode: str | None = None) -> Any:  # noqa: ARG001
    """Make one environment."""
    return DriftingEnv(0 if placement is None else placement.worker_index)


def make_drifting_encoder(cfg: Any, observation_space: gymnasium.spaces.Dict) -> Any:
    """Make the usual encoder; where it learns, it looks through ever more."""
    import torch

    from sample_profiler.model.encoders import ObservationEncoder

    class DriftingEncoder(ObservationEncoder):
        """Does more with each batch, as if it kept a list."""

        num_batches = 0

        def forward(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
            if torch.is_grad_enabled():
                self.num_batches += 1
                sum(range(_LONGER * self.num_batches))
            return super().forward(observations)

    return DriftingEncoder(dict(observation_space.spaces), cfg.model)


register_env("drifting", make_drifting_env)
if DRIFT == "learner":
    register_encoder(make_drifting_encoder)

if __name__ == "__main__":
    sys.exit(train(defaults={"env": "drifting", "use_rnn": False}))
