import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.envs import inspect_env, make_env, register_env
from sample_profiler.envs.images.pixel_order import ChannelsMoved

IMAGE = spaces.Box(0, 255, (6, 8, 3), np.uint8)


class PictureEnv(gymnasium.Env):
    def __init__(self, space, observation, num_agents=1):
        self.observation_space, self.action_space = space, spaces.Discrete(2)
        self.observation = observation if num_agents == 1 else [observation] * num_agents
        self.num_agents = num_agents

    def reset(self, *, seed=None, options=None):
        return self.observation, {}

    def step(self, action):
        return self.observation, 0.0, False, False, {}


def picture():
    return np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)


def test_channels_of_an_image_come_first():
    env = ChannelsMoved(PictureEnv(IMAGE, picture()))
    assert inspect_env(env).observation_space["obs"].shape == (3, 6, 8)
    for observation in (env.reset()[0], env.step(0)[0]):
        np.testing.assert_array_equal(observation, picture().transpose(2, 0, 1))
        assert observation.flags.c_contiguous


def test_images_in_dictionaries_of_several_agents_are_moved_and_all_else_stays():
    vector = np.ones(5, np.float32)
    space = spaces.Dict({"picture": IMAGE, "inner": spaces.Dict({"vector": spaces.Box(-1, 1, (5,))})})
    env = ChannelsMoved(PictureEnv(space, {"picture": picture(), "inner": {"vector": vector}}, num_agents=2))
    observations, _ = env.reset()
    assert env.num_agents == len(observations) == 2
    assert observations[1]["picture"].shape == env.observation_space["picture"].shape == (3, 6, 8)
    assert observations[1]["inner"]["vector"] is vector


def test_of_agents_with_spaces_of_their_own_those_with_pictures_have_them_moved():
    vector = np.ones(5, np.float32)
    inside = PictureEnv([spaces.Box(-1, 1, (5,)), IMAGE], None, num_agents=2)
    inside.observation = [vector, picture()]
    inside.begin_episodes = lambda agents: [inside.observation[agent] for agent in agents]
    env = ChannelsMoved(inside)
    spec = inspect_env(env)
    assert [spec.of_agent(agent).observation_space["obs"].shape for agent in range(2)] == [(5,), (3, 6, 8)]
    for observations in (env.reset()[0], env.step([0, 0])[0]):
        assert observations[0] is vector and observations[1].shape == (3, 6, 8)
    assert env.begin_episodes([1])[0].shape == (3, 6, 8)


@pytest.mark.parametrize("shape", [(3, 6, 8), (12, 12, 12), (5,), (2, 8, 3)])
def test_what_is_no_image_with_channels_last_stays(shape):
    space = spaces.Box(0, 255, shape, np.uint8)
    env = ChannelsMoved(PictureEnv(space, np.zeros(shape, np.uint8)))
    assert env.observation_space == space
    assert env.reset()[0].shape == shape


def test_what_the_environment_offers_is_still_there_and_nothing_more():
    env = ChannelsMoved(PictureEnv(IMAGE, picture()))
    assert env.unwrapped.observation.shape == (6, 8, 3)
    assert not hasattr(env, "begin_episodes")


def test_the_flag_says_so():
    class Cfg:
        pixel_format = "HWC"

    register_env("pictures", lambda name, cfg, place, render_mode=None: PictureEnv(IMAGE, picture()))
    assert make_env("pictures", Cfg(), None).observation_space.shape == (3, 6, 8)
    Cfg.pixel_format = "CHW"
    assert make_env("pictures", Cfg(), None).observation_space.shape == (6, 8, 3)
