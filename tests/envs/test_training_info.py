"""Environments are told how far the training is, whatever they are wrapped in."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.wrappers import TimeLimit, TransformReward

from sample_profiler.envs import inspect_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.methods import find_listeners, training_info
from sample_profiler.envs.vectors.vector_agents import OnlyMember, VectorAgents
from sample_profiler.errors import EnvError

INFO = {"approx_total_training_steps": 7}


class Plain(gymnasium.Env):
    """Wants to know nothing."""

    observation_space = spaces.Box(-1, 1e9, (1,), np.float32)
    action_space = spaces.Discrete(2)
    render_mode = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action):
        return self.observe(), 0.0, False, False, {}

    def observe(self):
        return np.zeros(1, np.float32)


class Told(Plain):
    """Shows what it was told."""

    def __init__(self):
        self.told = []

    def set_training_info(self, info):
        self.told.append(info["approx_total_training_steps"])

    def observe(self):
        return np.array([self.told[-1] if self.told else -1], np.float32)


class ToldWrapper(gymnasium.Wrapper):
    """Wants to know as well."""

    def __init__(self, env):
        super().__init__(env)
        self.told = []

    def set_training_info(self, info):
        self.told.append(info["approx_total_training_steps"])


class OldWrapper:
    """Passes on everything, the method too, as gym's wrappers did."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)


def tell(env):
    for listener in find_listeners(env):
        listener(training_info(7))


def test_through_wrappers_all_that_have_the_method_are_told_once_each():
    inside = Told()
    between = ToldWrapper(TimeLimit(inside, 5))
    tell(OldWrapper(TransformReward(between, lambda reward: reward)))
    assert (inside.told, between.told) == ([7], [7])
    inside.told.clear()
    tell(inside)
    assert inside.told == [7]


def test_what_only_its_innermost_environment_has_is_found():
    class Closed:
        def __init__(self, env):
            self.unwrapped = env

    inside = Told()
    tell(Closed(inside))
    assert inside.told == [7]


def test_whoever_wants_to_know_nothing_is_not_told():
    assert find_listeners(TimeLimit(Plain(), 5)) == []
    assert find_listeners(object()) == []
    assert find_listeners(SyncVectorEnv([Plain])) == []


def test_an_environment_that_says_it_wraps_itself_is_looked_at_once():
    inside = Told()
    inside.env = inside
    tell(inside)
    assert inside.told == [7]


@pytest.mark.parametrize("view", [lambda vector: vector, VectorAgents, lambda vector: OnlyMember(VectorAgents(vector))])
def test_members_of_a_vector_are_told(view):
    members = [Told()]
    tell(view(SyncVectorEnv([lambda: ToldWrapper(members[0])])))
    assert members[0].told == [7]


def test_members_in_processes_of_their_own_are_told():
    vector = AsyncVectorEnv([Told, Told])
    try:
        tell(VectorAgents(vector))
        assert vector.reset()[0].tolist() == [[7], [7]]
    finally:
        vector.close()
    vector = AsyncVectorEnv([Plain, Told])
    try:
        assert find_listeners(vector) == [], "not all of them want to know"
        vector.reset()
    finally:
        vector.close()


def test_agents_are_told_and_an_environment_that_raises_is_named():
    inside = Told()
    env = AgentsEnv(lambda: TimeLimit(inside, 5), inspect_env(Told()), "mine", 3, seed=1)
    assert env.wants_training_info
    env.set_training_info(np.int64(12))
    assert [(type(told), told) for told in inside.told] == [(int, 12)]
    inside.told = None
    with pytest.raises(EnvError, match=r"environment 3 \(mine\) raised in set_training_info: AttributeError"):
        env.set_training_info(13)
    assert not AgentsEnv(Plain, inspect_env(Plain()), "mine", 0, seed=1).wants_training_info


def test_each_is_told_in_a_dictionary_of_its_own():
    told = []

    class Greedy(ToldWrapper):
        def set_training_info(self, info):
            told.append(info.pop("approx_total_training_steps"))

    env = AgentsEnv(lambda: Greedy(Greedy(Plain())), inspect_env(Plain()), "mine", 0, seed=1)
    env.set_training_info(4)
    assert told == [4, 4]
