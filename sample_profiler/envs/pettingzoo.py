"""Owns the adapter around environments with PettingZoo's parallel interface, whose agents come as dictionaries."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium import spaces

__all__ = ["ParallelAgents", "is_parallel", "takes_turns"]


def is_parallel(env: Any) -> bool:
    """Tell whether an environment has PettingZoo's parallel interface: its spaces are asked for agent by agent."""
    return _is_of_pettingzoo(env) and not takes_turns(env)


def takes_turns(env: Any) -> bool:
    """Tell whether an environment has PettingZoo's other interface, in which one agent after another has a turn."""
    return _is_of_pettingzoo(env) and hasattr(env, "agent_iter")


def _is_of_pettingzoo(env: Any) -> bool:
    return hasattr(env, "possible_agents") and callable(getattr(env, "observation_space", None))


class ParallelAgents(gymnasium.Env[Any, Any]):
    """Agents of a parallel environment, in the order of its ``possible_agents``, by the contract of several agents.

    Who is not there, or not to move, is inactive. Of observations that are dictionaries, the entry ``observation`` is
    called ``obs``; an ``action_mask`` is one.

    Attributes:
        num_agents: Number of agents.
        observation_space: Of all agents; a list with one for each, if these differ.
        action_space: Of all agents; a list with one for each, if these differ.
    """

    _absent_end = True
    """Whether the step that ends the episode of all tells so of those whose own has ended before, too."""

    def __init__(self, env: Any) -> None:
        """Wrap an environment.

        Args:
            env: With PettingZoo's parallel interface.
        """
        self.env = env
        self.metadata = getattr(env, "metadata", {})
        self.render_mode = getattr(env, "render_mode", None)
        self._agents = list(env.possible_agents)
        self.num_agents = len(self._agents)
        self.observation_space = _one_or_all([_renamed_space(env.observation_space(agent)) for agent in self._agents])
        self.action_space = _one_or_all([env.action_space(agent) for agent in self._agents])
        self._latest: dict[Any, Any] = {}

    def reset(self, **keywords: Any) -> Any:
        """Begin an episode of all."""
        observations, infos = self.env.reset(**keywords)
        self._latest = {agent: _nothing(self.env.observation_space(agent)) for agent in self._agents}
        self._latest |= observations
        return self._listed(), [self._info_of(agent, infos) for agent in self._agents]

    def step(self, actions: Sequence[Any]) -> Any:
        """Take a step; agents whose episode has ended before that of all wait for it."""
        chosen = dict(zip(self._agents, actions, strict=True))
        observations, rewards, terminated, truncated, infos = self.env.step(
            {agent: chosen[agent] for agent in self.env.agents}
        )
        self._latest.update(observations)
        earned = [rewards.get(agent, 0.0) for agent in self._agents]
        of_absent = self._absent_end and not self.env.agents
        ends, cuts = ([bool(each.get(agent, of_absent)) for agent in self._agents] for each in (terminated, truncated))
        return self._listed(), earned, ends, cuts, [self._info_of(agent, infos) for agent in self._agents]

    def render(self) -> Any:
        """Return what the environment renders."""
        return self.env.render()

    def close(self) -> None:
        """End the environment."""
        self.env.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def _listed(self) -> list[Any]:
        return [_renamed(self._latest[agent]) for agent in self._agents]

    def _info_of(self, agent: Any, infos: Mapping[Any, Any]) -> dict[str, Any]:
        info = dict(infos.get(agent, {}))
        # Environments that take turns say whose it is.
        has_turn = agent in self.env.agents and info.get("active_agent", agent) == agent
        return {**info, "is_active": has_turn and info.get("is_active", True)}


def _one_or_all(agents_spaces: list[Any]) -> Any:
    return agents_spaces[0] if all(space == agents_spaces[0] for space in agents_spaces) else agents_spaces


def _nothing(space: gymnasium.Space[Any]) -> Any:
    """Return an observation for an agent that is not there, or has not been told any."""
    space = copy.deepcopy(space)
    space.seed(0)
    return space.sample()


def _renamed_space(space: Any) -> Any:
    return spaces.Dict(_renamed(dict(space.spaces))) if isinstance(space, spaces.Dict) else space


def _renamed(entries: Any) -> Any:
    if not isinstance(entries, dict) or "observation" not in entries:
        return entries
    return {"obs" if key == "observation" else key: value for key, value in entries.items()}
