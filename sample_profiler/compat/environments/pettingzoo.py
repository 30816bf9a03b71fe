"""Owns the adapter around PettingZoo's parallel environments."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces

from sample_profiler.errors import EnvError

__all__ = ["PettingZooParallelEnv"]


class PettingZooParallelEnv(gymnasium.Env[Any, Any]):
    """Several agents of one space, which reset themselves; who is not there, or not to move, is inactive.

    Of observations that are dictionaries, the entry `observation` is called `obs`.
    """

    is_multiagent = True

    def __init__(self, env: Any) -> None:
        """Wrap an environment.

        Args:
            env: With PettingZoo's parallel interface.

        Raises:
            EnvError: Agents have different spaces.
        """
        self.env = env
        self.metadata = env.metadata
        self.render_mode = getattr(env, "render_mode", None)
        self._agents = list(env.possible_agents)
        self.num_agents = len(self._agents)
        self.observation_space = _renamed_space(_only_one([env.observation_space(agent) for agent in self._agents]))
        self.action_space = _only_one([env.action_space(agent) for agent in self._agents])
        self._latest: dict[Any, Any] = {}

    def reset(self, **keywords: Any) -> Any:
        """Begin an episode of all."""
        observations, infos = self.env.reset(**keywords)
        self._latest = dict(observations)
        return self._listed(), [self._info_of(agent, infos) for agent in self._agents]

    def step(self, actions: Any) -> Any:
        """Take a step; where it ends the episode, return the first observations of the next."""
        chosen = dict(zip(self._agents, actions, strict=True))
        observations, rewards, terminated, truncated, infos = self.env.step(
            {agent: chosen[agent] for agent in self.env.agents}
        )
        self._latest.update(observations)
        infos = [self._info_of(agent, infos) for agent in self._agents]
        is_over = not self.env.agents
        if is_over:
            self._latest = dict(self.env.reset()[0])
        earned = [rewards.get(agent, 0.0) for agent in self._agents]
        ends, cuts = ([bool(each.get(agent, is_over)) for agent in self._agents] for each in (terminated, truncated))
        return self._listed(), earned, ends, cuts, infos

    def render(self) -> Any:
        """Return what the environment renders."""
        return self.env.render()

    def close(self) -> None:
        """End the environment."""
        self.env.close()

    def _listed(self) -> list[Any]:
        return [_renamed(self._latest[agent]) for agent in self._agents]

    def _info_of(self, agent: Any, infos: Any) -> dict[str, Any]:
        if agent not in infos:
            return {"is_active": False}
        info = dict(infos[agent])
        # Environments that take turns say whose it is.
        return {**info, "is_active": info["active_agent"] == agent} if "active_agent" in info else info


def _only_one(agents_spaces: list[Any]) -> Any:
    if any(space != agents_spaces[0] for space in agents_spaces):
        raise EnvError("all agents of an environment of PettingZoo need the same spaces")
    return agents_spaces[0]


def _renamed_space(space: Any) -> Any:
    return spaces.Dict(_renamed(dict(space.spaces))) if isinstance(space, spaces.Dict) else space


def _renamed(entries: Any) -> Any:
    if not isinstance(entries, dict) or "observation" not in entries:
        return entries
    return {"obs" if key == "observation" else key: value for key, value in entries.items()}
