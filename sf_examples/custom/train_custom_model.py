"""Trains a network with an encoder of one's own, and watches: ``python -m sf_examples.custom.train_custom_model``.

The observation is a nested dictionary: where the point itself is, and a set of objects in any order, of which one is
the target. The encoder treats all objects alike and keeps the largest of what it finds (Zaheer et al. 2017, "Deep
Sets").
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler import RunObserver, register_encoder, register_env

if TYPE_CHECKING:
    from sample_profiler.run.observers import SummaryWriter
    from sample_profiler.run.runner import Runner

_NUM_OBJECTS = 4


class FindTargetEnv(gymnasium.Env[Any, Any]):
    """A point in the plane goes to the one of several objects that is marked."""

    observation_space = spaces.Dict(
        {
            "self": spaces.Dict({"position": spaces.Box(-1, 1, (2,), np.float32)}),
            "objects": spaces.Box(-1, 1, (_NUM_OBJECTS, 3), np.float32),
        }
    )
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Put everything somewhere."""
        super().reset(seed=seed, options=options)
        self.position = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        self.objects = self.np_random.uniform(-1, 1, (_NUM_OBJECTS, 3)).astype(np.float32)
        self.target = int(self.np_random.integers(_NUM_OBJECTS))
        self.objects[:, 2] = np.arange(_NUM_OBJECTS) == self.target
        self.num_steps = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move the point."""
        self.position = np.clip(self.position + 0.1 * action, -1, 1).astype(np.float32)
        self.num_steps += 1
        distance = float(np.linalg.norm(self.position - self.objects[self.target, :2]))
        is_found, is_late = distance < 0.1, self.num_steps >= 50
        # Of the last info of an episode: a mean over the latest episodes is in TensorBoard.
        info = {"episode_extra_stats": {"found": float(is_found)}} if is_found or is_late else {}
        return self.observe(), -0.1 * distance + is_found, is_found, is_late, info

    def observe(self) -> Any:
        """Return what the agent sees."""
        return {"self": {"position": self.position.copy()}, "objects": self.objects.copy()}


def make_set_encoder(cfg: Any, observation_space: spaces.Dict) -> Any:
    """Make the encoder; PyTorch is imported here, since workers that only step environments do without it."""
    import torch
    from torch import nn

    width = cfg.encoder_mlp_layers[-1]

    class SetEncoder(nn.Module):
        """One network for each object, beside the point's position; the largest of each feature counts."""

        output_size = width

        def __init__(self) -> None:
            super().__init__()
            num_own = int(np.prod(observation_space["self/position"].shape or ()))
            num_features = (observation_space["objects"].shape or (0, 0))[1]
            self.of_object = nn.Sequential(
                nn.Linear(num_own + num_features, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
            )

        def forward(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
            own, objects = observations["self/position"], observations["objects"]
            pairs = torch.cat([own[:, None].expand(-1, objects.shape[1], -1), objects], dim=-1)
            largest: torch.Tensor = self.of_object(pairs).amax(dim=1)
            return largest

    return SetEncoder()


class Watcher(RunObserver):
    """Counts training iterations, and adds the count to the summaries."""

    num_iterations = 0

    def on_training_step(self, runner: Runner, training_iteration: int) -> None:  # noqa: ARG002
        """Count."""
        self.num_iterations = training_iteration

    def extra_summaries(self, runner: Runner, policy_id: int, env_steps: int, writer: SummaryWriter) -> None:  # noqa: ARG002
        """Write the count."""
        writer.add_scalar("custom/training_iterations", self.num_iterations, env_steps)


register_env("custom_find_target", lambda *_, **__: FindTargetEnv())
register_encoder(make_set_encoder)
DEFAULTS = {
    "env": "custom_find_target",
    "experiment": "custom_find_target",
    "use_rnn": False,
    "normalize_input": False,
    "encoder_mlp_layers": (64,),
    "learning_rate": 1e-3,
    "train_for_env_steps": 300_000,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Train; flags on the command line replace the defaults above."""
    from sample_profiler.cli.train import train

    return train(argv, defaults=DEFAULTS, observers=[Watcher()])


if __name__ == "__main__":
    sys.exit(main())
