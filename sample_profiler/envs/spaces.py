"""What the rest of the package needs to know about observation and action spaces. numpy only."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler.errors import EnvContractError

__all__ = [
    "DEFAULT_OBSERVATION_KEY",
    "action_dtype",
    "action_width",
    "as_dict_space",
    "num_action_parameters",
]

DEFAULT_OBSERVATION_KEY = "obs"
"""Key of the observation of an environment whose observations are not dictionaries."""


def as_dict_space(space: gymnasium.Space[Any]) -> spaces.Dict:
    """Returns the space itself if it is a dictionary, else one with the space under :data:`DEFAULT_OBSERVATION_KEY`."""
    return space if isinstance(space, spaces.Dict) else spaces.Dict({DEFAULT_OBSERVATION_KEY: space})


def action_width(space: gymnasium.Space[Any]) -> int:
    """Returns how many numbers one action is: 1 for Discrete, the number of its entries for a Box."""
    return 1 if isinstance(space, spaces.Discrete) else _box_size(space)


def num_action_parameters(space: gymnasium.Space[Any]) -> int:
    """Returns how many numbers describe the distribution of one action.

    Discrete(n): n logits. Box with n entries: n means and n logarithms of standard deviations.
    """
    return int(space.n) if isinstance(space, spaces.Discrete) else 2 * _box_size(space)


def action_dtype(space: gymnasium.Space[Any]) -> np.dtype[Any]:
    """Returns the type of an action's numbers: int64 for Discrete, float32 for Box."""
    if isinstance(space, spaces.Discrete):
        return np.dtype(np.int64)
    _box_size(space)
    return np.dtype(np.float32)


def _box_size(space: gymnasium.Space[Any]) -> int:
    if not isinstance(space, spaces.Box) or space.dtype is None or space.dtype.kind != "f":
        raise EnvContractError(
            f"action space {space} is not supported; allowed are Discrete and Box of floats: convert it in a wrapper"
        )
    return math.prod(space.shape)
