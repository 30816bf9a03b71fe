"""Train until the return is good enough with PPO of Stable-Baselines3 or SBX, in its environment.

`python sb3_return.py OUTPUT THRESHOLD SECONDS SEED LIBRARY SETTINGS`: LIBRARY is `stable_baselines3` or `sbx`, SETTINGS
a JSON object as in the hyperparameter files of RL Zoo: PPO's own arguments, where `lin_0.001` falls to zero, and `env`,
`n_envs`, `n_timesteps` and `normalize`. All environments are in this process, as RL Zoo has them.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from returns import Returns  # beside this file, which is run as a program
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize


class UntilGoodEnough(BaseCallback):
    """Notes the return of each episode, and ends the training."""

    def __init__(self, returns: Returns) -> None:
        super().__init__()
        self._returns = returns

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self._returns.end_episode(float(info["episode"]["r"]), self.num_timesteps)
        return not self._returns.is_over


def _falling(first: float) -> Callable[[float], float]:
    return lambda remaining: remaining * first


def _read(value: Any) -> Any:
    """Return what a setting stands for."""
    if isinstance(value, str) and value.startswith("lin_"):
        return _falling(float(value[len("lin_") :]))
    if isinstance(value, dict):
        return {name: getattr(torch.nn, each) if name == "activation_fn" else each for name, each in value.items()}
    return value


def main() -> int:
    """Train and watch."""
    output, threshold, seconds, seed, library, settings = sys.argv[1:]
    given: dict[str, Any] = {name: _read(value) for name, value in json.loads(settings).items()}
    name, num_envs = given.pop("env"), given.pop("n_envs", 1)
    num_steps, normalizes = int(given.pop("n_timesteps")), given.pop("normalize", False)
    with Returns(output, float(threshold), float(seconds)) as returns:
        envs: Any = make_vec_env(name, n_envs=num_envs, seed=int(seed))
        if normalizes:
            envs = VecNormalize(envs, gamma=given.get("gamma", 0.99))
        make: Any = importlib.import_module(library).PPO
        model = make("MlpPolicy", envs, seed=int(seed), device="cpu", verbose=0, **given)
        model.learn(total_timesteps=num_steps, callback=UntilGoodEnough(returns))
        envs.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
