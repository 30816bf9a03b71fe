"""Owns what becomes of images that an environment returns with their channels last (``--pixel_format=HWC``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler.spaces import space_of_agent

__all__ = ["ChannelsMoved"]

_MOST_CHANNELS = 4
_OF_A_PICTURE = 3


class ChannelsMoved:
    """An environment of one agent or several whose images have their channels first, as networks expect them.

    What is moved are images [height, width, channels] of at most four channels, also in dictionaries; all else stays.
    Whatever else it is asked for is the environment's own.

    Attributes:
        observation_space: As the images are now.
    """

    def __init__(self, env: Any) -> None:
        """Wrap an environment.

        Args:
            env: By the contract of :mod:`sample_profiler.envs.contract`.
        """
        self._env = env
        self._space = space = env.observation_space
        self.observation_space = (
            [_moved_space(each) for each in space] if isinstance(space, list | tuple) else _moved_space(space)
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_env":
            raise AttributeError(name)
        if name == "begin_episodes" and callable(getattr(self._env, name)):  # not there unless it is the environment's
            return self._begin_episodes
        return getattr(self._env, name)

    def reset(self, **keywords: Any) -> Any:
        """Begin an episode."""
        result = self._env.reset(**keywords)
        return self._moved(result)

    def step(self, action: Any) -> Any:
        """Take a step."""
        result = self._env.step(action)
        return self._moved(result)

    def _begin_episodes(self, agents: Sequence[int]) -> list[Any]:
        return self._moved_all(agents, self._env.begin_episodes(agents))

    def _moved(self, result: Any) -> Any:
        if not isinstance(result, tuple) or not result:
            return result  # the check of the contract says what is wrong with it
        observations, *others = result
        if isinstance(observations, list | tuple):
            return self._moved_all(range(len(observations)), observations), *others
        return _move(observations, self._space), *others

    def _moved_all(self, agents: Sequence[int], observations: Sequence[Any]) -> list[Any]:
        pairs = zip(agents, observations, strict=True)
        return [_move(observation, space_of_agent(self._space, agent)) for agent, observation in pairs]


def _is_moved(space: gymnasium.Space[Any]) -> bool:
    shape = space.shape or ()
    is_picture = isinstance(space, spaces.Box) and len(shape) == _OF_A_PICTURE
    return is_picture and shape[2] <= _MOST_CHANNELS < min(shape[:2])


def _moved_space(space: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _moved_space(item) for key, item in space.items()})
    if not _is_moved(space):
        return space
    return spaces.Box(space.low.transpose(2, 0, 1), space.high.transpose(2, 0, 1), dtype=space.dtype)


def _move(observation: Any, space: Any) -> Any:
    if isinstance(space, spaces.Dict) and isinstance(observation, Mapping):
        return {key: _move(value, space[key]) if key in space.spaces else value for key, value in observation.items()}
    return np.ascontiguousarray(np.asarray(observation).transpose(2, 0, 1)) if _is_moved(space) else observation
