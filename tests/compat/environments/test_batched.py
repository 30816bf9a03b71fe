"""Environments for loops of one's own."""

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from sample_profiler.compat.environments.batched import (
    EnvInfo,
    extract_env_info,
    make_env_func_batched,
    make_env_func_non_batched,
    preprocess_actions,
)
from sample_profiler.compat.environments.interfaces import (
    RewardShapingInterface,
    find_training_info_interface,
    get_default_reward_shaping,
    set_reward_shaping,
)
from sample_profiler.compat.environments.registry import global_env_registry, register_env
from sample_profiler.compat.settings.arguments import default_cfg
from sample_profiler.envs.registry import registered_envs


def test_one_agent_is_a_batch_of_one_that_resets_itself():
    register_env("cart", lambda name, cfg, env_config, render_mode: gymnasium.make("CartPole-v1"))
    assert "cart" in global_env_registry()
    cfg = default_cfg(env="cart")
    env = make_env_func_batched(cfg, env_config=None)
    info = extract_env_info(env, cfg)
    assert (info.num_agents, info.frameskip, list(info.obs_space.spaces)) == (1, 1, ["obs"])
    observations, infos = env.reset(seed=1)
    assert observations["obs"].shape == (1, 4) and infos == [{}]
    for _ in range(50):
        observations, rewards, terminated, truncated, infos = env.step(preprocess_actions(info, torch.ones(1, 1)))
        assert rewards.tolist() == [1.0]
        if terminated | truncated:
            break
    assert "reset_info" in infos[0] and observations["obs"].abs().max() < 0.06, "the next episode has begun"
    env.close()


def test_a_seed_counts_for_the_next_reset_and_what_is_wrapped_is_there():
    register_env("cart", lambda name, cfg, env_config, render_mode: gymnasium.make("CartPole-v1"))
    env = make_env_func_batched(default_cfg(env="cart"), env_config=None)
    begun = []
    for _ in range(2):
        env.seed(5)
        begun.append(env.reset()[0]["obs"])
    assert torch.equal(*begun) and not torch.equal(begun[0], env.reset()[0]["obs"])
    assert env.env.unwrapped is env.unwrapped
    assert env.step(torch.ones(1, dtype=torch.int64).numpy())[1].dtype == torch.float32
    env.close()


def test_one_agent_may_be_a_list_of_one_instead():
    register_env("cart", lambda name, cfg, env_config, render_mode: gymnasium.make("CartPole-v1"))
    cfg = default_cfg(env="cart")
    env = make_env_func_non_batched(cfg, env_config=None)
    assert extract_env_info(env, cfg).num_agents == env.num_agents == 1 and env.is_multiagent
    (begun,), infos = env.reset(seed=1)
    assert begun["obs"].shape == (4,) and infos == [{}]
    while True:
        (observation,), rewards, terminated, truncated, infos = env.step([1])
        assert rewards == [1.0]
        if terminated[0] or truncated[0]:
            break
    assert "reset_info" in infos[0] and abs(observation["obs"]).max() < 0.06, "the next episode has begun"
    env.close()


def test_what_is_put_into_the_registry_and_taken_out_is_so_for_runs():
    def make(name, cfg, env_config, render_mode):
        return gymnasium.make("CartPole-v1")

    global_env_registry().update({"cart_1": make})
    global_env_registry().setdefault("cart_2", make)
    assert {"cart_1", "cart_2"} <= set(registered_envs())
    assert global_env_registry().pop("cart_1") is make
    del global_env_registry()["cart_2"]
    assert not {"cart_1", "cart_2"} & set(registered_envs())


def test_several_agents_as_lists_are_tensors_or_stay_lists():
    class Pair(gymnasium.Env):
        num_agents = 2
        observation_space = spaces.Dict({"a": spaces.Box(0, 1, (3,)), "b": spaces.Box(0, 1, (2,))})
        action_space = spaces.Discrete(2)

        def reset(self, **keywords):
            return [{"a": np.ones(3), "b": np.zeros(2)}] * 2, [{}, {}]

        def step(self, actions):
            return self.reset()[0], [1, 2], [False, True], [False, False], [{}, {}]

    register_env("pair", lambda name, cfg, env_config, render_mode: Pair())
    env = make_env_func_batched(default_cfg(env="pair"), None)
    assert {key: tuple(value.shape) for key, value in env.reset()[0].items()} == {"a": (2, 3), "b": (2, 2)}
    _, rewards, terminated, _, _ = env.step([0, 1])
    assert rewards.tolist() == [1, 2] and terminated.tolist() == [False, True]
    observations, rewards, *_ = make_env_func_non_batched(default_cfg(env="pair"), None).step([0, 1])
    assert [each["a"].shape for each in observations] == [(3,), (3,)] and rewards == [1, 2]
    Pair.reset = lambda *_, **keywords: ({"a": np.ones((2, 3)), "b": np.zeros((2, 2))}, [{}, {}])
    observations, _ = make_env_func_non_batched(default_cfg(env="pair"), None).reset()
    assert [each["a"].shape for each in observations] == [(3,), (3,)]


def test_actions_as_environments_take_them():
    def info(space, all_discrete=None):
        return EnvInfo(spaces.Dict({}), space, 2, False, False, None, all_discrete, 1)

    box = spaces.Box(-1, 1, (2,), np.float32)
    assert preprocess_actions(info(spaces.Discrete(3)), torch.tensor([[1], [2]])).tolist() == [1, 2]
    assert preprocess_actions(info(box), torch.zeros(2, 2)).shape == (2, 2)
    both = spaces.Tuple((spaces.Discrete(3), box))
    first, second = preprocess_actions(info(both, all_discrete=False), torch.tensor([[1.0, 0.5, 0.5], [2.0, 0, 0]]))
    assert first[0] == 1 and first[1].tolist() == [0.5, 0.5] and second[0] == 2


class Shaped(gymnasium.Wrapper, RewardShapingInterface):
    """Pays the reward that its weight says."""

    def __init__(self, env):
        super().__init__(env)
        self.weights = {"upright": 1.0}

    def get_default_reward_shaping(self):
        return self.weights

    def set_reward_shaping(self, reward_shaping, agent_idx):
        self.weights = reward_shaping

    def step(self, action):
        observation, reward, *others = self.env.step(action)
        return observation, reward * self.weights["upright"], *others


def test_rewards_of_an_environment_are_weighted_anew_through_whatever_is_around_it():
    register_env("shaped", lambda *_: gymnasium.wrappers.TimeLimit(Shaped(gymnasium.make("CartPole-v1")), 9))
    cfg = default_cfg(env="shaped")
    env = make_env_func_batched(cfg, env_config=None)
    assert extract_env_info(env, cfg).reward_shaping_scheme == {"upright": 1.0}
    env.reset(seed=1)
    set_reward_shaping(env, {"upright": 3.0}, slice(0, 1))
    set_reward_shaping(env, None, 0)  # nothing to change
    assert env.step(np.array([1]))[1].tolist() == [3.0]
    assert get_default_reward_shaping(gymnasium.make("CartPole-v1")) is None
    assert find_training_info_interface(env) is None
    env.close()
