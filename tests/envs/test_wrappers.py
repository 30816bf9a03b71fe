"""Repeated actions, stacked frames and converted images."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.config import EnvironmentOptions
from sample_profiler.envs.contract import check_reset_result, check_step_result, inspect_env
from sample_profiler.envs.wrappers import (
    ChannelsFirst,
    Float32Observation,
    FrameSkip,
    FrameStack,
    ResizeImage,
    skip_and_stack,
)
from sample_profiler.errors import EnvContractError


class Counter(gymnasium.Env):
    """Observation t in step t; reward t; terminated or truncated in the last step."""

    def __init__(self, shape=(2,), dtype=np.float64, num_steps=5, is_truncated=False):
        self.observation_space = spaces.Box(0, 200, shape, dtype)
        self.action_space = spaces.Discrete(2)
        self.num_steps, self.is_truncated, self.t = num_steps, is_truncated, 0
        self.actions = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.actions = 0, []
        return self.observe(), {"seed": seed}

    def step(self, action):
        self.t += 1
        self.actions.append(action)
        is_over = self.t == self.num_steps
        return self.observe(), self.t, is_over and not self.is_truncated, is_over and self.is_truncated, {"t": self.t}

    def observe(self):
        return np.full(self.observation_space.shape, self.t, self.observation_space.dtype)


def test_frame_skip_sums_arrays_of_one_number():
    env = FrameSkip(Counter(), 3)
    step = env.env.step

    def step_in_arrays(action):
        observation, *outcome, info = step(action)
        return observation, *(np.array([value]) for value in outcome), info

    env.env.step = step_in_arrays
    env.reset()
    assert [env.step(0)[1] for _ in range(2)] == [1 + 2 + 3, 4 + 5], "and it ends with the episode"


def test_frame_skip_sums_rewards_and_repeats_the_action():
    env = FrameSkip(Counter(), 3)
    env.reset()
    observation, reward, terminated, truncated, info = env.step(1)
    assert (observation.tolist(), reward, terminated, truncated, info) == ([3, 3], 1 + 2 + 3, False, False, {"t": 3})
    assert env.unwrapped.actions == [1, 1, 1]


@pytest.mark.parametrize("is_truncated", [False, True])
def test_frame_skip_stops_at_the_end_of_the_episode(is_truncated):
    env = FrameSkip(Counter(is_truncated=is_truncated), 3)
    env.reset()
    env.step(0)
    observation, reward, terminated, truncated, _ = env.step(0)
    assert (observation.tolist(), reward) == ([5, 5], 4 + 5)
    assert (terminated, truncated) == (not is_truncated, is_truncated)
    assert len(env.unwrapped.actions) == 5


def test_frame_stack_of_vectors_has_the_oldest_first():
    env = FrameStack(Counter(), 3)
    assert env.observation_space.shape == (6,)
    first, info = env.reset(seed=7)
    assert first.tolist() == [0] * 6
    assert info == {"seed": 7}
    assert env.step(0)[0].tolist() == [0, 0, 0, 0, 1, 1]
    env.step(0)
    assert env.step(0)[0].tolist() == [1, 1, 2, 2, 3, 3]
    assert first.tolist() == [0] * 6, "an observation given out earlier changed"
    assert env.reset()[0].tolist() == [0] * 6


def test_frame_stack_of_images_joins_channels():
    env = FrameStack(Counter((3, 4, 5), np.uint8), 2)
    assert env.observation_space == spaces.Box(0, 200, (6, 4, 5), np.uint8)
    env.reset()
    observation = env.step(0)[0]
    assert observation.dtype == np.uint8
    assert observation[:3].max() == 0
    assert observation[3:].min() == 1


def test_resize_image():
    env = ResizeImage(Counter((3, 6, 8), np.uint8), 3, 4)
    assert env.observation_space == spaces.Box(0, 200, (3, 3, 4), np.uint8)
    spec = inspect_env(env)
    check_reset_result(env.reset(), spec, "counter")
    check_step_result(env.step(0), spec, "counter")


def test_channels_first():
    class Image(Counter):
        def observe(self):
            return np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)

    env = ChannelsFirst(Image((4, 5, 3), np.uint8))
    assert env.observation_space.shape == (3, 4, 5)
    observation, _ = env.reset()
    assert observation[1, 2, 3] == (2 * 5 + 3) * 3 + 1
    assert observation.flags.c_contiguous


def test_float32_observation():
    env = Float32Observation(Counter())
    assert env.observation_space.dtype == np.float32
    assert env.reset()[0].dtype == np.float32
    assert env.step(0)[0].dtype == np.float32


def test_skip_and_stack_wraps_only_what_is_asked_for():
    env = Counter()
    assert skip_and_stack(env, EnvironmentOptions()) is env
    both = skip_and_stack(env, EnvironmentOptions(env_frameskip=2, env_framestack=2))
    both.reset()
    assert both.step(0)[0].tolist() == [0, 0, 2, 2], "frames are stacked after skipping"


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (lambda env: ResizeImage(env, 3, 4), "cannot resize observations of shape"),
        (ChannelsFirst, "cannot transpose observations of shape"),
    ],
)
def test_images_need_three_dimensions(wrap, message):
    with pytest.raises(EnvContractError, match=f"environment Counter: {message}"):
        wrap(Counter())


def test_dictionaries_cannot_be_stacked():
    env = Counter()
    env.observation_space = spaces.Dict({"obs": env.observation_space})
    with pytest.raises(EnvContractError, match="environment Counter: cannot stack observations of Dict"):
        FrameStack(env, 2)


@pytest.mark.parametrize("wrap", [FrameSkip, FrameStack])
def test_number_of_frames_has_to_be_positive(wrap):
    with pytest.raises(ValueError, match="num_frames is 0"):
        wrap(Counter(), 0)
