"""The spaces of an environment and of its agents: what the rest of the system knows about it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
from gymnasium import spaces

from sample_profiler.spaces.as_data import space_from_data, space_to_data

__all__ = ["AgentSpaces", "EnvSpec"]


@dataclass(frozen=True)
class AgentSpaces:
    """What one agent sees and does.

    Attributes:
        observation_space: A flat dictionary, as that of an :class:`EnvSpec`.
        action_space: As that of an :class:`EnvSpec`.
    """

    observation_space: spaces.Dict
    action_space: gymnasium.Space[Any]


@dataclass(frozen=True, kw_only=True)
class EnvSpec:
    """What the rest of the system knows about an environment; pickles.

    Attributes:
        observation_space: Always a flat dictionary; a space that is none is found under the key ``obs``, entries of
            nested ones under ``outer/inner``, of Tuples under their numbers. Of the first agent, if each has its own.
        action_space: Discrete, MultiDiscrete, MultiBinary, Box of floats, or a Tuple or Dict of them.
        num_agents: Number of agents, 1 or more.
        own_spaces: Of each agent, where not all have the same; else empty.
    """

    observation_space: spaces.Dict
    action_space: gymnasium.Space[Any]
    num_agents: int = 1
    own_spaces: tuple[AgentSpaces, ...] = ()

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """Which kind each agent is of, from 0 on: those of one kind have equal spaces."""
        known: list[AgentSpaces] = []
        for each in self.own_spaces:
            if each not in known:
                known.append(each)
        return tuple(map(known.index, self.own_spaces)) or (0,) * self.num_agents

    def of_agent(self, agent: int) -> EnvSpec:
        """Return what would be known if all agents had the spaces of this one."""
        if not self.own_spaces:
            return self
        own = self.own_spaces[agent]
        return EnvSpec(
            observation_space=own.observation_space, action_space=own.action_space, num_agents=self.num_agents
        )

    def of_kinds(self) -> list[EnvSpec]:
        """Return, for each kind, what would be known if all agents were of it."""
        return [self.of_agent(self.kinds.index(kind)) for kind in range(max(self.kinds) + 1)]

    def to_data(self) -> dict[str, Any]:
        """Return plain data, for files; of agents with spaces of their own there are none: see :meth:`of_agent`."""
        seen, taken = space_to_data(self.observation_space), space_to_data(self.action_space)
        return {"observation_space": seen, "action_space": taken, "num_agents": self.num_agents}

    @classmethod
    def from_data(cls, data: Any) -> EnvSpec:
        """Return what `to_data` has described.

        Raises:
            ValueError: The data are something else.
        """
        try:
            seen, taken = space_from_data(data["observation_space"]), space_from_data(data["action_space"])
            num_agents = int(data["num_agents"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"it describes no environment: {type(error).__name__}: {error}") from None
        if not isinstance(seen, spaces.Dict):
            raise ValueError(f"{seen} is no dictionary")
        return cls(observation_space=seen, action_space=taken, num_agents=num_agents)
