"""Trains a network of one's own with an asymmetric critic: ``python -m sf_examples.custom.train_own_actor_critic``.

The critic sees what the actor does not: the wind that drives a boat off its way (Pinto et al. 2018, "Asymmetric Actor
Critic for Image-Based Robot Learning"). It is needed for training alone; the actor acts without it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler import register_actor_critic, register_env

if TYPE_CHECKING:
    import torch

_NUM_STEPS = 20


class BoatEnv(gymnasium.Env[Any, Any]):
    """A boat is to stay at 0, in a wind that changes from episode to episode."""

    observation_space = spaces.Dict(
        {"place": spaces.Box(-9, 9, (2,), np.float32), "wind": spaces.Box(-1, 1, (1,), np.float32)}
    )
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Let another wind blow."""
        super().reset(seed=seed, options=options)
        self.wind = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        self.places = [np.zeros(1, np.float32)] * 2
        self.num_steps = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Drift and steer."""
        place = np.clip(self.places[-1] + 0.5 * (self.wind + action), -9, 9).astype(np.float32)
        self.places = [self.places[-1], place]
        self.num_steps += 1
        return self.observe(), 1.0 - abs(float(place[0])), False, self.num_steps == _NUM_STEPS, {}

    def observe(self) -> dict[str, Any]:
        """Return the latest two places, and the wind."""
        return {"place": np.concatenate(self.places), "wind": self.wind}


def make_actor_critic(cfg: Any, observation_space: spaces.Dict, action_space: gymnasium.Space[Any]) -> Any:
    """Make the network; PyTorch is imported here, since workers that only step environments do without it."""
    import torch
    from torch import nn

    width = cfg.encoder_mlp_layers[-1]
    num_seen, num_hidden = (int(np.prod(observation_space[key].shape or ())) for key in ("place", "wind"))
    num_parameters = 2 * int(np.prod(action_space.shape or ()))  # a mean and the logarithm of a standard deviation

    def make_layers(num_inputs: int, num_outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(num_inputs, width), nn.Tanh(), nn.Linear(width, num_outputs))

    class AsymmetricActorCritic(nn.Module):
        """Two networks; that of the critic sees more."""

        def __init__(self) -> None:
            super().__init__()
            self.actor = make_layers(num_seen, num_parameters)
            self.critic = make_layers(num_seen + num_hidden, 1)

        def forward_head(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
            return torch.cat([observations["place"], observations["wind"]], dim=-1)

        def forward_tail(self, core: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.actor(core[:, :num_seen]), self.critic(core).squeeze(-1)

    return AsymmetricActorCritic()


register_env("custom_boat", lambda *_, **__: BoatEnv())
DEFAULTS = {
    "env": "custom_boat",
    "experiment": "custom_boat",
    "encoder_mlp_layers": (64,),
    "learning_rate": 3e-3,
    "gamma": 0.9,
    "exploration_loss_coeff": 0.0,
    "train_for_env_steps": 200_000,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Train; flags on the command line replace the defaults above."""
    from sample_profiler.cli.train import train

    register_actor_critic(make_actor_critic)
    return train(argv, defaults=DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
