"""Owns the playing of a trained policy: one environment, actions drawn as in training, no learning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.model import ActorCritic

__all__ = ["PlayedEpisode", "Player", "play"]


@dataclass(frozen=True)
class PlayedEpisode:
    """One episode.

    Attributes:
        rewards: of each agent, summed over the episode.
        num_frames: that it took.
        extra: `episode_extra_stats` and `true_objective` of its last infos, means over the agents.
    """

    rewards: tuple[float, ...]
    num_frames: int
    extra: dict[str, float] = field(default_factory=dict)

    @property
    def reward(self) -> float:
        """Mean over the agents."""
        return float(np.mean(self.rewards))


class Player:
    """Draws the actions of all agents of one environment from one policy.

    Args:
        model: the policy.
        num_agents: of the environment.
        generator: draws the actions; None: the most probable action is taken.
    """

    def __init__(self, model: ActorCritic, num_agents: int, generator: torch.Generator | None) -> None:
        self._model = model.eval()
        self._generator = generator
        self._states = torch.zeros(num_agents, model.state_size)

    def begin_episode(self) -> None:
        """Forget what was seen."""
        self._states = torch.zeros_like(self._states)

    @torch.inference_mode()
    def act(self, observations: list[dict[str, Any]]) -> npt.NDArray[Any]:
        """Return the action of each agent, `[num_agents, action_width]`, and remember what was seen."""
        batch = {key: torch.from_numpy(np.stack([each[key] for each in observations])) for key in observations[0]}
        parameters, _, self._states = self._model(self._model.normalize(batch), self._states)
        distribution = self._model.action_distribution(parameters)
        actions = distribution.mode() if self._generator is None else distribution.sample(self._generator)
        return actions.numpy()


def play(
    env: AgentsEnv, player: Player, frames_per_step: int, repeats: int, show: Callable[[], None]
) -> Iterator[PlayedEpisode]:
    """Play one episode after another, for ever.

    Args:
        env: to play.
        player: draws the actions.
        frames_per_step: frames that one step of the environment takes.
        repeats: steps of the environment for which each action is held.
        show: is called after each reset and each step of the environment.
    """
    while True:
        observations = env.reset()
        player.begin_episode()
        show()
        rewards, num_steps = np.zeros(env.num_agents), 0
        is_over = False
        while not is_over:
            actions = player.act(observations)
            for _ in range(repeats):
                observations, step_rewards, terminated, truncated, infos = env.step(actions)
                rewards += step_rewards
                num_steps += 1
                show()
                is_over = all(end or cut for end, cut in zip(terminated, truncated, strict=True))
                if is_over:
                    break
        yield PlayedEpisode(tuple(rewards.tolist()), num_steps * frames_per_step, _mean_extra(infos))


def _mean_extra(infos: list[dict[str, Any]]) -> dict[str, float]:
    collected: dict[str, list[float]] = {}
    for info in infos:
        extra = dict(info.get("episode_extra_stats", {}))
        if "true_objective" in info:
            extra["true_objective"] = info["true_objective"]
        for key, value in extra.items():
            collected.setdefault(key, []).append(float(value))
    return {key: float(np.mean(values)) for key, values in collected.items()}
