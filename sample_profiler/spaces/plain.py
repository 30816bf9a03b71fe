"""Spaces as environments have them: whose they are, and as gymnasium's own classes, which any process can read."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
from gymnasium import spaces

__all__ = ["plain_space", "space_of_agent"]


def space_of_agent(space: Any, agent: int) -> gymnasium.Space[Any]:
    """Return the space of one agent: of a list, as environments have whose agents have spaces of their own, its entry.

    Args:
        space: What an environment says its observations or actions are of.
        agent: Number of the agent.
    """
    chosen: gymnasium.Space[Any] = space if isinstance(space, gymnasium.Space) else space[agent]
    return chosen


def plain_space(space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
    """Return a space as one of gymnasium's own classes, without a random generator: data that any process can read.

    An environment may have classes of its own derived from these, which only it can import. Other spaces stay what they
    are.
    """
    if isinstance(space, spaces.Dict):
        return spaces.Dict([(key, plain_space(item)) for key, item in space.spaces.items()])  # in its own order
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([plain_space(item) for item in space.spaces])
    for kind, template in _TEMPLATES.items():
        if isinstance(space, kind):
            plain: gymnasium.Space[Any] = copy.copy(template)
            for name in vars(template).keys() - _OF_GENERATOR:
                setattr(plain, name, copy.copy(getattr(space, name)))
            return plain
    return space


_TEMPLATES: dict[type, gymnasium.Space[Any]] = {
    spaces.Box: spaces.Box(0, 1, (1,)),
    spaces.Discrete: spaces.Discrete(1),
    spaces.MultiBinary: spaces.MultiBinary(1),
    spaces.MultiDiscrete: spaces.MultiDiscrete([1]),
}
_OF_GENERATOR = {"_np_random", "_np_random_seed"}
