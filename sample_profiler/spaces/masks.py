"""Action masks: which values of an action are not allowed in a step."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces

from sample_profiler.errors import ConfigError
from sample_profiler.spaces.actions import action_parts

__all__ = ["ACTION_MASK_KEY", "split_action_mask"]

ACTION_MASK_KEY = "action_mask"
"""Key of the observation that is 0 for each value of a discrete part of the action that is not allowed in this step."""


def split_action_mask(
    observation_space: spaces.Dict, action_space: gymnasium.Space[Any]
) -> tuple[dict[str, gymnasium.Space[Any]], int]:
    """Return the spaces of what a policy sees, by key, and the width of the action mask beside them.

    The width is 0 if there is no mask.

    Raises:
        ConfigError: The mask does not fit the actions, or there is nothing else to see.
    """
    seen = {key: space for key, space in observation_space.items() if key != ACTION_MASK_KEY}
    if len(seen) == len(observation_space):
        if pieces := [key for key in seen if key.startswith(f"{ACTION_MASK_KEY}/")]:
            raise ConfigError(
                [
                    f"the observation {ACTION_MASK_KEY!r} consists of {pieces}; a mask is one vector with a number for "
                    "each value of each discrete part of an action, one part after another: join them in a wrapper, or "
                    "give the observation another name if it is no mask"
                ]
            )
        return seen, 0
    mask_space = observation_space[ACTION_MASK_KEY]
    size = sum(int(part.n) for part in action_parts(action_space) if isinstance(part, spaces.Discrete))
    if not size or mask_space.shape != (size,):
        raise ConfigError(
            [
                f"the observation {ACTION_MASK_KEY!r} is {mask_space} and the action space {action_space}; a mask has "
                f"one number for each value of each discrete part of an action, {size} in all: give the observation "
                "another name if it is no mask"
            ]
        )
    if not seen:
        raise ConfigError([f"there is no observation beside {ACTION_MASK_KEY!r}; a policy needs something to see"])
    return seen, size
