"""Wrappers that families put around their environments: repeated actions, stacked frames, images as networks expect.

For one agent, and for observations that are arrays, not dictionaries, where a wrapper changes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sample_profiler.envs.contract import name_of_env, only_number
from sample_profiler.envs.images.resize import NearestResize
from sample_profiler.errors import EnvContractError
from sample_profiler.profiling.ranges import profile_range

if TYPE_CHECKING:
    from sample_profiler.config import EnvironmentOptions

__all__ = ["ChannelsFirst", "Float32Observation", "FrameSkip", "FrameStack", "ResizeImage", "skip_and_stack"]

Env = gymnasium.Env[Any, Any]
Wrapper = gymnasium.Wrapper[Any, Any, Any, Any]
ObservationWrapper = gymnasium.ObservationWrapper[Any, Any, Any]


class FrameSkip(Wrapper):
    """Repeats each action, adding up the rewards; stops at the end of the episode."""

    def __init__(self, env: Env, num_frames: int) -> None:
        """Wrap an environment.

        Args:
            env: The environment.
            num_frames: Number of frames for which each action is repeated, 1 or more.
        """
        super().__init__(env)
        self._num_frames = _at_least_one("num_frames", num_frames)

    @profile_range("FrameSkip.step")
    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take up to ``num_frames`` steps; return the last one with the sum of the rewards."""
        total = 0.0
        for _ in range(self._num_frames):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(only_number(reward))
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


class FrameStack(Wrapper):
    """Joins the latest observations along their first dimension, the oldest first.

    Images [channels, height, width] become [n * channels, height, width], vectors [size] become [n * size]. An episode
    starts with n times its first observation.
    """

    def __init__(self, env: Env, num_frames: int) -> None:
        """Wrap an environment whose observations are arrays.

        Args:
            env: The environment.
            num_frames: Number of observations joined, 1 or more.

        Raises:
            EnvContractError: The observations are no arrays.
        """
        super().__init__(env)
        space = _box(env, "stack")
        self._num_frames = _at_least_one("num_frames", num_frames)
        self._length = space.shape[0]
        repeats = (self._num_frames, *([1] * (len(space.shape) - 1)))
        low, high = np.tile(space.low, repeats), np.tile(space.high, repeats)
        self.observation_space = spaces.Box(low, high, dtype=_dtype(space))
        self._frames = np.zeros(self.observation_space.shape, dtype=space.dtype)

    @profile_range("FrameStack.reset")
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        for start in range(0, len(self._frames), self._length):
            self._frames[start : start + self._length] = observation
        return self._frames.copy(), info

    @profile_range("FrameStack.step")
    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._frames[: -self._length] = self._frames[self._length :]
        self._frames[-self._length :] = observation
        return self._frames.copy(), reward, terminated, truncated, info


class ResizeImage(ObservationWrapper):
    """Resizes image observations [channels, height, width] to the nearest pixels."""

    def __init__(self, env: Env, height: int, width: int) -> None:
        """Wrap an environment.

        Args:
            env: The environment.
            height: Height of the new observations in pixels.
            width: Width of the new observations in pixels.

        Raises:
            EnvContractError: The observations are no images.
        """
        super().__init__(env)
        space = _image(env, "resize")
        size = (_at_least_one("height", height), _at_least_one("width", width))
        self._resize = NearestResize((space.shape[0], space.shape[1], space.shape[2]), *size)
        low, high = self._resize(space.low), self._resize(space.high)
        self.observation_space = spaces.Box(low, high, dtype=_dtype(space))

    @profile_range("ResizeImage.observation")
    def observation(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Return the resized image."""
        return self._resize(observation)


class ChannelsFirst(ObservationWrapper):
    """Turns images [height, width, channels] into [channels, height, width], which the networks expect."""

    def __init__(self, env: Env) -> None:
        """Wrap an environment.

        Raises:
            EnvContractError: The observations are no images.
        """
        super().__init__(env)
        space = _image(env, "transpose")
        low, high = self.observation(space.low), self.observation(space.high)
        self.observation_space = spaces.Box(low, high, dtype=_dtype(space))

    @profile_range("ChannelsFirst.observation")
    def observation(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Return the image with its channels first, contiguous in memory."""
        return np.ascontiguousarray(observation.transpose(2, 0, 1))


class Float32Observation(ObservationWrapper):
    """Turns vectors of doubles into floats, half the memory, as the networks compute."""

    def __init__(self, env: Env) -> None:
        """Wrap an environment.

        Raises:
            EnvContractError: The observations are no arrays.
        """
        super().__init__(env)
        space = _box(env, "convert")
        low, high = space.low.astype(np.float32), space.high.astype(np.float32)
        self.observation_space = spaces.Box(low, high, dtype=np.float32)

    @profile_range("Float32Observation.observation")
    def observation(self, observation: NDArray[Any]) -> NDArray[np.float32]:
        """Return the observation as float32."""
        return np.asarray(observation, dtype=np.float32)


def skip_and_stack(env: Env, options: EnvironmentOptions) -> Env:
    """Return the environment with ``--env_frameskip`` and ``--env_framestack`` applied, unwrapped where they are 1."""
    if options.env_frameskip > 1:
        env = FrameSkip(env, options.env_frameskip)
    return FrameStack(env, options.env_framestack) if options.env_framestack > 1 else env


def _at_least_one(what: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"{what} is {value}; it has to be 1 or more")
    return value


def _box(env: Env, action: str) -> spaces.Box:
    space = env.observation_space
    if not isinstance(space, spaces.Box) or not space.shape:
        raise EnvContractError(
            f"environment {name_of_env(env)}: cannot {action} observations of {space}; they have to be a Box with at "
            "least one dimension"
        )
    return space


def _image(env: Env, action: str) -> spaces.Box:
    space = _box(env, action)
    if len(space.shape) != 3:
        raise EnvContractError(
            f"environment {name_of_env(env)}: cannot {action} observations of shape {space.shape}; images have three "
            "dimensions"
        )
    return space


def _dtype(space: spaces.Box) -> type[Any]:
    # The constructor of Box is typed for scalar types, not for the dtype that it stores.
    return np.dtype(space.dtype).type
