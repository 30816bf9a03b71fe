"""Train CartPole-v1 with Stable-Baselines3's PPO: `python sb3_run.py OUTPUT SECONDS`, in its virtual environment.

32 environments in this process (its own default, and the fastest for CartPole), 64 steps each a rollout: 2,048 steps,
one minibatch, one epoch. Actor and critic share two layers of 512 with ELU, as they do in the other frameworks' runs.
"""

from __future__ import annotations

import sys
import time

import torch
from gymnasium import spaces
from stable_baselines3 import PPO  # type: ignore[import-not-found,unused-ignore]
from stable_baselines3.common.callbacks import BaseCallback  # type: ignore[import-not-found,unused-ignore]
from stable_baselines3.common.env_util import make_vec_env  # type: ignore[import-not-found,unused-ignore]
from stable_baselines3.common.torch_layers import (  # type: ignore[import-not-found,unused-ignore]
    BaseFeaturesExtractor,
)
from watching import Curve  # type: ignore[import-not-found,unused-ignore] # beside this file, which is run as a program

_WIDTH = 512


class SharedLayers(BaseFeaturesExtractor):  # type: ignore[misc,unused-ignore]
    """Two layers of 512 with ELU."""

    def __init__(self, observation_space: spaces.Box) -> None:
        super().__init__(observation_space, _WIDTH)
        layers = [torch.nn.Linear(observation_space.shape[0], _WIDTH), torch.nn.ELU()]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(_WIDTH, _WIDTH), torch.nn.ELU())

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Encode."""
        return self.layers(observations)  # type: ignore[no-any-return]


class UntilTimeIsOver(BaseCallback):  # type: ignore[misc,unused-ignore]
    """Notes the steps that have been trained on, and ends the training."""

    def __init__(self, seconds: float, curve: Curve) -> None:
        super().__init__()
        self._end_s = time.monotonic() + seconds
        self._curve = curve

    def _on_rollout_start(self) -> None:  # all that was sampled before has been trained on
        self._curve.note(self.num_timesteps)

    def _on_step(self) -> bool:
        return time.monotonic() < self._end_s


def main() -> int:
    """Train and watch."""
    output, seconds = sys.argv[1:]
    envs = make_vec_env("CartPole-v1", n_envs=32, seed=1)
    policy = {"features_extractor_class": SharedLayers, "net_arch": []}
    model = PPO(
        "MlpPolicy", envs, n_steps=64, batch_size=2048, n_epochs=1, policy_kwargs=policy, device="cpu", verbose=0
    )
    with Curve(output) as curve:
        model.learn(total_timesteps=10**9, callback=UntilTimeIsOver(float(seconds), curve))
    return 0


if __name__ == "__main__":
    sys.exit(main())
