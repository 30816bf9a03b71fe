"""Train CartPole-v1 with Stable-Baselines3's PPO: `python sb3_run.py OUTPUT SECONDS --networks=shared …`, in its venv.

All environments are in this process: its own default, and the fastest for CartPole. With `--vec_env=subproc` each has a
process of its own, as in the other frameworks environments and learner have. With `--networks=shared` actor and critic
share two layers of 512 with ELU, as they do in the other frameworks' runs; with `separate` each has its own two,
which is what its policies make of the same sizes (`net_arch=[512, 512]`).
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
from watching import Curve  # beside this file, which is run as a program

_WIDTH = 512


class SharedLayers(BaseFeaturesExtractor):
    """Two layers of 512 with ELU."""

    def __init__(self, observation_space: spaces.Box) -> None:
        super().__init__(observation_space, _WIDTH)
        layers = [torch.nn.Linear(observation_space.shape[0], _WIDTH), torch.nn.ELU()]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(_WIDTH, _WIDTH), torch.nn.ELU())

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Encode."""
        return self.layers(observations)  # type: ignore[no-any-return]


class UntilTimeIsOver(BaseCallback):
    """Notes the steps that have been trained on, and ends the training."""

    def __init__(self, seconds: float, curve: Curve) -> None:
        super().__init__()
        self._seconds, self._end_s = seconds, 0.0
        self._curve = curve

    def _on_training_start(self) -> None:
        self._end_s = time.monotonic() + self._seconds

    def _on_rollout_start(self) -> None:  # all that was sampled before has been trained on
        self._curve.note(self.num_timesteps)

    def _on_step(self) -> bool:
        return time.monotonic() < self._end_s


_NETWORKS: dict[str, dict[str, Any]] = {
    "shared": {"features_extractor_class": SharedLayers, "net_arch": []},
    "separate": {"net_arch": [_WIDTH, _WIDTH], "activation_fn": torch.nn.ELU},
}
_VEC_ENVS = {"dummy": DummyVecEnv, "subproc": SubprocVecEnv}


def main() -> int:
    """Train and watch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", help="file of the frames trained on")
    parser.add_argument("seconds", type=float, help="how long it trains")
    parser.add_argument("--networks", choices=_NETWORKS, default="shared", help="of actor and critic")
    parser.add_argument("--vec_env", choices=_VEC_ENVS, default="dummy", help="environments here or in processes")
    parser.add_argument("--n_envs", type=int, default=32, help="environments")
    parser.add_argument("--n_steps", type=int, default=64, help="of a rollout")
    parser.add_argument("--batch_size", type=int, default=2048, help="of a minibatch")
    parser.add_argument("--n_epochs", type=int, default=1, help="over each rollout")
    options = parser.parse_args()
    envs = make_vec_env("CartPole-v1", n_envs=options.n_envs, seed=1, vec_env_cls=_VEC_ENVS[options.vec_env])
    sizes = {"n_steps": options.n_steps, "batch_size": options.batch_size, "n_epochs": options.n_epochs}
    model = PPO("MlpPolicy", envs, **sizes, policy_kwargs=_NETWORKS[options.networks], device="cpu", verbose=0)
    with Curve(options.output) as curve:
        model.learn(total_timesteps=10**9, callback=UntilTimeIsOver(options.seconds, curve))
    envs.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
