"""What the rest of the package needs to know about observation and action spaces. numpy only."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sample_profiler.errors import ConfigError, EnvContractError

__all__ = [
    *("ACTION_MASK_KEY", "DEFAULT_OBSERVATION_KEY", "action_batch_converter", "action_converter", "action_dtype"),
    *("action_parts", "action_width"),
    *("as_dict_space", "draw_action", "flatten_action", "flatten_observation", "is_discrete", "is_nested"),
    *("normalized_keys", "num_action_parameters", "part_width", "plain_space", "split_action_mask"),
]

DEFAULT_OBSERVATION_KEY = "obs"
"""Key of the observation of an environment whose observations are not dictionaries."""

ACTION_MASK_KEY = "action_mask"
"""Key of the observation that is 0 for each value of a discrete part of the action that is not allowed in this step."""


def as_dict_space(space: gymnasium.Space[Any]) -> spaces.Dict:
    """Return an observation space as a flat dictionary.

    What is no dictionary is found under :data:`DEFAULT_OBSERVATION_KEY`; a dictionary within a dictionary is replaced
    by its entries, under keys such as ``outer/inner``.
    """
    if not isinstance(space, spaces.Dict):
        return spaces.Dict({DEFAULT_OBSERVATION_KEY: space})
    return spaces.Dict(flatten_observation(dict(space.items()))) if is_nested(space) else space


def plain_space(space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
    """Return a space as one of gymnasium's own classes, without a random generator: data that any process can read.

    An environment may have classes of its own derived from these, which only it can import. Other spaces stay what they
    are.
    """
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: plain_space(item) for key, item in space.items()})
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


def is_nested(space: gymnasium.Space[Any]) -> bool:
    """Tell whether a space is a dictionary with dictionaries in it."""
    return isinstance(space, spaces.Dict) and any(isinstance(item, spaces.Dict) for item in space.values())


def flatten_observation(observation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a nested dictionary under keys such as ``outer/inner``."""
    flat: dict[str, Any] = {}
    for key, value in observation.items():
        if isinstance(value, Mapping | spaces.Dict):
            flat.update((f"{key}/{inner}", entry) for inner, entry in flatten_observation(dict(value.items())).items())
        else:
            flat[key] = value
    return flat


def action_parts(space: gymnasium.Space[Any]) -> tuple[spaces.Discrete | spaces.Box, ...]:
    """Return the parts that an action consists of, each drawn by itself: Discrete, or Box of floats.

    A MultiDiscrete is as many Discrete parts as it has entries, a Tuple the parts of its members, in their order.

    Raises:
        EnvContractError: There is no distribution for such actions.
    """
    if isinstance(space, spaces.Discrete):
        return (space,)
    if isinstance(space, spaces.MultiDiscrete):
        pairs = zip(space.nvec.ravel().tolist(), np.ravel(space.start).tolist(), strict=True)
        return tuple(spaces.Discrete(num, start=start) for num, start in pairs)
    if isinstance(space, spaces.Tuple) and space.spaces:
        return tuple(part for member in space.spaces for part in action_parts(member))
    if isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind == "f":
        return (space,)
    raise EnvContractError(
        f"action space {space} is not supported; allowed are Discrete, MultiDiscrete, Box of floats and a Tuple of "
        "them: convert it in a wrapper"
    )


def is_discrete(space: gymnasium.Space[Any]) -> bool:
    """Tell whether all parts of an action are Discrete."""
    return all(isinstance(part, spaces.Discrete) for part in action_parts(space))


def action_width(space: gymnasium.Space[Any]) -> int:
    """Return how many numbers one action is: 1 for each Discrete part, the number of its entries for a Box."""
    return sum(part_width(part) for part in action_parts(space))


def part_width(part: spaces.Discrete | spaces.Box) -> int:
    """Return how many numbers of an action one of its parts is."""
    return 1 if isinstance(part, spaces.Discrete) else math.prod(part.shape)


def num_action_parameters(space: gymnasium.Space[Any]) -> int:
    """Return how many numbers describe the distribution of one action.

    Discrete(n): n logits. Box with n entries: n means and n logarithms of standard deviations. All parts one after
    another.
    """
    return sum(
        int(part.n) if isinstance(part, spaces.Discrete) else 2 * part_width(part) for part in action_parts(space)
    )


def action_dtype(space: gymnasium.Space[Any]) -> np.dtype[Any]:
    """Return the type of an action's numbers: int64 if all of it is discrete, else float32."""
    return np.dtype(np.int64) if is_discrete(space) else np.dtype(np.float32)


def action_converter(space: gymnasium.Space[Any]) -> Callable[[npt.NDArray[Any]], Any]:
    """Return what turns the numbers of an action, ``[action_width]``, into what an environment takes.

    Discrete numbers count from 0 in trajectories. The policy's Gaussian is unbounded; what it drew stays in the
    trajectory, the environment gets it clipped to the bounds of the Box.
    """
    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        return lambda action: int(action[0]) + first
    if isinstance(space, spaces.MultiDiscrete):
        starts, shape, dtype = np.ravel(space.start), space.nvec.shape, space.dtype
        return lambda action: (action.astype(dtype) + starts).reshape(shape)
    if isinstance(space, spaces.Tuple):
        members = [action_converter(member) for member in space.spaces]
        ends = np.cumsum([action_width(member) for member in space.spaces])[:-1]
        return lambda action: tuple(
            convert(part) for convert, part in zip(members, np.split(action, ends), strict=True)
        )
    if isinstance(space, spaces.Box):
        low, high, box_shape = space.low, space.high, space.shape
        return lambda action: np.minimum(np.maximum(action.reshape(box_shape), low), high)
    return lambda action: action


def action_batch_converter(space: gymnasium.Space[Any]) -> Callable[[npt.NDArray[Any]], Any]:
    """Return what does the work of :func:`action_converter` for many actions at once, ``[num, action_width]``.

    They come out in new memory, as gymnasium batches them: an array ``[num, ...]``, for a Tuple a tuple of arrays.
    """
    if isinstance(space, spaces.Discrete):
        return lambda actions: (actions[:, 0] + space.start).astype(space.dtype, copy=False)
    if isinstance(space, spaces.MultiDiscrete):
        starts, shape = np.ravel(space.start), space.nvec.shape
        return lambda actions: (actions + starts).astype(space.dtype, copy=False).reshape(-1, *shape)
    if isinstance(space, spaces.Tuple):
        members = [action_batch_converter(member) for member in space.spaces]
        ends = np.cumsum([action_width(member) for member in space.spaces])[:-1]
        return lambda actions: tuple(
            convert(part) for convert, part in zip(members, np.split(actions, ends, axis=1), strict=True)
        )
    if isinstance(space, spaces.Box):
        box_shape, dtype = space.shape, space.dtype
        low, high = (bound.flat[0] if len(set(bound.flat)) == 1 else bound.ravel() for bound in (space.low, space.high))
        return lambda actions: np.clip(actions, low, high).astype(dtype, copy=False).reshape(-1, *box_shape)
    return lambda actions: actions.copy()


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


def normalized_keys(
    observation_spaces: Mapping[str, gymnasium.Space[Any]],
    wanted: Collection[str] | None,
    subtract_mean: float,
    scale: float,
) -> Collection[str]:
    """Return the keys of observations that can be, and are to be, normalized by running statistics.

    Args:
        observation_spaces: By key, without an action mask.
        wanted: ``--normalize_input_keys``.
        subtract_mean: ``--obs_subtract_mean``.
        scale: ``--obs_scale``.

    Raises:
        ConfigError: The flags name observations that do not exist.
    """
    numeric = [key for key, space in observation_spaces.items() if isinstance(space, spaces.Box)]
    problems = []
    if DEFAULT_OBSERVATION_KEY not in numeric and (subtract_mean != 0 or scale != 1):
        problems.append(
            f"--obs_subtract_mean={subtract_mean} and --obs_scale={scale} concern the observation "
            f"{DEFAULT_OBSERVATION_KEY!r}, and the environment has {sorted(numeric)}; leave both flags out, or rename "
            "the observation"
        )
    problems += [
        f"--normalize_input_keys names {key!r}; the environment's observations of numbers are {sorted(numeric)}"
        for key in wanted or ()
        if key not in numeric
    ]
    if problems:
        raise ConfigError(problems)
    return numeric if wanted is None else wanted


def draw_action(space: gymnasium.Space[Any], mask: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Draw an action as the space samples it, ``[action_width]``; forbidden values are replaced by allowed ones.

    Args:
        space: With a seed or without.
        mask: 0 for each value of a discrete part that is not allowed; ``None``: all are.
    """
    action = flatten_action(space, space.sample())
    if mask is not None:
        column = first = 0
        for part in action_parts(space):
            if isinstance(part, spaces.Discrete):
                allowed = np.flatnonzero(mask[first : first + int(part.n)])
                if action[column] not in allowed and len(allowed):
                    action[column] = space.np_random.choice(allowed)
                first += int(part.n)
            column += part_width(part)
    return action


def flatten_action(space: gymnasium.Space[Any], action: Any) -> npt.NDArray[Any]:
    """Return the numbers of an action of an environment, ``[action_width]``: what its converter undoes."""
    if isinstance(space, spaces.Tuple):
        parts = [flatten_action(member, part) for member, part in zip(space.spaces, action, strict=True)]
        return np.concatenate(parts).astype(action_dtype(space))
    start = np.ravel(space.start) if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else 0
    return np.ravel(action) - start
