"""Owns the wrappers that Sample Factory's environments of pictures are built from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_profiler.compat.environments.interfaces import num_env_steps
from sample_profiler.compat.helpers.utilities import log
from sample_profiler.errors import EnvError

__all__ = [
    *("EpisodeCounterWrapper", "NumpyObsWrapper", "PixelFormatChwWrapper", "RecordingWrapper", "ResizeWrapper"),
    *("RewardScalingWrapper", "TimeLimitWrapper", "has_image_observations", "opencv"),
]

Env = gymnasium.Env[Any, Any]
Wrapper = gymnasium.Wrapper[Any, Any, Any, Any]
ObservationWrapper = gymnasium.ObservationWrapper[Any, Any, Any]

_MOST_CHANNELS = 4
_NUM_DIMENSIONS = 3


def has_image_observations(observation_space: spaces.Space[Any]) -> bool:
    """Tell whether observations may be pictures, by the number of their dimensions."""
    return len(observation_space.shape or ()) > 1


def opencv() -> Any:
    """Return OpenCV.

    Raises:
        EnvError: It is not installed.
    """
    try:
        import cv2
    except ImportError:
        raise EnvError("pictures are resized, shown and saved with OpenCV: install opencv-python-headless") from None
    return cv2


class ResizeWrapper(ObservationWrapper):
    """Resizes pictures `[height, width, channels]`, and makes them gray unless told not to."""

    def __init__(
        self,
        env: Env,
        w: int,
        h: int,
        grayscale: bool = True,
        add_channel_dim: bool = False,
        area_interpolation: bool = False,
    ) -> None:
        super().__init__(env)
        self._cv2 = opencv()
        self._size = (w, h)
        self._is_gray = grayscale
        self._adds_channel = add_channel_dim
        self._interpolation = self._cv2.INTER_AREA if area_interpolation else self._cv2.INTER_NEAREST
        space = env.observation_space
        self.observation_space = (
            spaces.Dict({key: self._resized(item) for key, item in space.items()})
            if isinstance(space, spaces.Dict)
            else self._resized(space)
        )

    def observation(self, observation: Any) -> Any:
        """Resize a picture, or each of a dictionary of them."""
        if isinstance(observation, dict):
            return {key: self._resize(picture) for key, picture in observation.items()}
        return None if observation is None else self._resize(observation)

    def _resized(self, space: Any) -> spaces.Box:
        picture = self._resize(np.zeros(space.shape, space.dtype))
        return spaces.Box(space.low.flat[0], space.high.flat[0], picture.shape, space.dtype)

    def _resize(self, picture: Any) -> Any:
        channels = picture.shape[2:]
        resized = self._cv2.resize(picture, self._size, interpolation=self._interpolation)
        if self._is_gray and channels == (3,):
            resized = self._cv2.cvtColor(resized, self._cv2.COLOR_RGB2GRAY)
        elif not self._is_gray and channels:
            return resized.reshape(*resized.shape[:2], *channels)  # OpenCV drops a single channel
        return resized[:, :, None] if self._adds_channel and resized.ndim < _NUM_DIMENSIONS else resized


class PixelFormatChwWrapper(ObservationWrapper):
    """Puts the channels of a picture first; of a dictionary, those of its entry `obs`."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        space = env.observation_space
        self._is_dict = isinstance(space, spaces.Dict)
        picture: Any = space["obs"] if isinstance(space, spaces.Dict) else space
        shape: tuple[int, ...] = picture.shape or ()
        if len(shape) != _NUM_DIMENSIONS or shape[0] <= _MOST_CHANNELS:
            raise EnvError(f"observations of shape {shape} are no pictures [height, width, channels]")
        moved = spaces.Box(picture.low.flat[0], picture.high.flat[0], (shape[2], *shape[:2]), picture.dtype)
        self.observation_space = (
            spaces.Dict({**space.spaces, "obs": moved}) if isinstance(space, spaces.Dict) else moved
        )

    def observation(self, observation: Any) -> Any:
        """Move the channels of a picture."""
        if observation is None:
            return None
        if self._is_dict:
            return {**observation, "obs": np.transpose(observation["obs"], (2, 0, 1))}
        return np.transpose(observation, (2, 0, 1))


class RewardScalingWrapper(Wrapper):
    """Multiplies rewards by a number."""

    def __init__(self, env: Env, scaling_factor: float) -> None:
        super().__init__(env)
        self._factor = scaling_factor

    def step(self, action: Any) -> Any:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, float(reward) * self._factor, terminated, truncated, info


class TimeLimitWrapper(Wrapper):
    """Ends episodes after so many frames, more or fewer by up to a number that is drawn for each."""

    def __init__(self, env: Env, limit: int, random_variation_steps: int = 0) -> None:
        super().__init__(env)
        self._limit = limit
        self._variation = random_variation_steps
        self._num_left = limit

    def reset(self, **keywords: Any) -> Any:
        """Begin an episode."""
        self._num_left = self._limit + int(np.random.randint(-self._variation, self._variation + 1))
        return self.env.reset(**keywords)

    def step(self, action: Any) -> Any:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if observation is not None:
            self._num_left -= num_env_steps([info])
            truncated = truncated or (self._num_left <= 0 and not terminated)
        return observation, reward, terminated, truncated, info


class NumpyObsWrapper(ObservationWrapper):
    """Makes arrays of observations that are only like some."""

    def observation(self, observation: Any) -> Any:
        """Make an array."""
        return np.array(observation)


class EpisodeCounterWrapper(Wrapper):
    """Numbers episodes, from 0, as `episode_number` among what their last info tells of them."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.episode_count = 0

    def step(self, action: Any) -> Any:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            info.setdefault("episode_extra_stats", {})["episode_number"] = self.episode_count
            self.episode_count += 1
        return observation, reward, terminated, truncated, info


class RecordingWrapper(Wrapper):
    """Saves the pictures and actions of each episode in a folder of its own, which is named after its reward.

    Args:
        env: Its observations are pictures. It is told of the folder as `record_to`, which Doom's keep demos in.
        record_to: The folder of all episodes.
        player_id: Whose episodes these are.
    """

    def __init__(self, env: Env, record_to: str, player_id: int | None) -> None:
        super().__init__(env)
        self._cv2 = opencv()
        self._record_to = Path(record_to)
        self._player_id = player_id
        self._num_episodes = 0
        self._folder: Path | None = None
        self._reward = 0.0
        self._actions: list[Any] = []
        self.unwrapped.record_to = record_to  # type: ignore[attr-defined]

    def reset(self, **keywords: Any) -> Any:
        """End the recording of an episode, and begin that of the next."""
        self._finish()
        self._folder = self._record_to / f"ep_{self._num_episodes:03d}_p{self._player_id}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._num_episodes += 1
        self._reward, self._actions = 0.0, []
        return self.env.reset(**keywords)

    def step(self, action: Any) -> Any:
        """Take a step."""
        result = self.env.step(action)
        if self._folder is not None and result[0] is not None:
            picture = self._cv2.cvtColor(result[0], self._cv2.COLOR_RGB2BGR)
            self._cv2.imwrite(str(self._folder / f"{len(self._actions):05d}.png"), picture)
        self._actions.append(_as_plain(action))
        self._reward += float(result[1])
        return result

    def close(self) -> None:
        """End the recording of the last episode."""
        self._finish()
        self.env.close()

    def _finish(self) -> None:
        folder, self._folder = self._folder, None
        if folder is None:
            return
        (folder / "actions.json").write_text(json.dumps(self._actions))
        named = folder.with_name(f"{folder.name}_r{self._reward:.2f}")
        folder.rename(named)
        log.info("Recorded %s", named)


def _as_plain(action: Any) -> Any:
    if isinstance(action, tuple | list):
        return [_as_plain(part) for part in action]
    return action.tolist() if hasattr(action, "tolist") else action
