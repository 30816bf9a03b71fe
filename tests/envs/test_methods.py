"""Methods of environments that are not of the contract are found through whatever is around them."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from sample_profiler.envs import inspect_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.methods import find_method
from sample_profiler.envs.vectors.vector_agents import OnlyMember, VectorAgents
from sample_profiler.envs.wrappers import FrameStack
from sample_profiler.errors import EnvContractError, EnvError


class Told(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    heard = None

    def reset(self, *, seed=None, options=None):
        return np.full(2, self.heard or 0, np.float32), {}

    def step(self, action):
        return np.full(2, self.heard or 0, np.float32), 0.0, False, False, {}

    def hear(self, value):
        if value == "bad":
            raise ValueError(value)
        self.heard = value


def agents_env(make):
    return AgentsEnv(make, inspect_env(Told()), "told", 3, seed=1)


@pytest.mark.parametrize(
    "wrap", [lambda env: env, lambda env: FrameStack(gymnasium.wrappers.TimeLimit(env, 5), 2)], ids=["bare", "wrapped"]
)
def test_it_is_called_through_wrappers(wrap):
    told = Told()
    agents_env(lambda: wrap(told)).call("hear", (0.5,))
    assert told.heard == 0.5


@pytest.mark.parametrize("only", [False, True])
def test_it_is_called_in_all_members_of_a_vector(only):
    members = [Told() for _ in range(1 if only else 3)]
    vector = VectorAgents(SyncVectorEnv([lambda each=each: each for each in members]))
    agents_env(lambda: OnlyMember(vector) if only else vector).call("hear", (0.5,))
    assert [member.heard for member in members] == [0.5] * len(members)


class Hidden(Told):
    """A layer that keeps what it plays in an attribute of its own, as Gymnasium's wrappers do not."""

    hear = None

    def __init__(self, env):
        self._env = env


def test_it_is_called_through_members_that_are_no_wrappers_of_gymnasium():
    inside = [Told(), Told()]
    find_method(SyncVectorEnv([lambda each=each: Hidden(each) for each in inside]), "hear")(0.5)
    assert [each.heard for each in inside] == [0.5, 0.5]


def test_it_is_called_in_members_that_have_processes_of_their_own():
    vector = AsyncVectorEnv([Told, Told])
    try:
        find_method(VectorAgents(vector), "hear")(0.5)
        assert (vector.reset()[0] == 0.5).all()
    finally:
        vector.close()


@pytest.mark.parametrize("make", [Told, lambda: VectorAgents(SyncVectorEnv([Told]))])
def test_an_environment_without_it_is_named(make):
    with pytest.raises(EnvContractError, match=r"environment 3 \(told\) has no method listen\(\)"):
        agents_env(make).call("listen", ())


def test_one_that_raises_in_it_is_named():
    with pytest.raises(EnvError, match=r"environment 3 \(told\) raised in hear: ValueError: bad"):
        agents_env(Told).call("hear", ("bad",))
