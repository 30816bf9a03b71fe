"""Environments of OpenAI's Gym, which is not installed: what stands in its place has what is asked of it."""

import sys
from types import SimpleNamespace

import gymnasium
import pytest
from gymnasium import spaces

from sample_profiler.compat.environments.older_gym import as_gymnasium, convert_space, patch_non_gymnasium_env
from sample_profiler.errors import EnvError


class OldSpace:
    pass


class OldEnv:
    observation_space = action_space = OldSpace()
    num_agents = 3

    @property
    def unwrapped(self):
        return self

    def reset(self, seed=None):
        pass


class Wrapped(gymnasium.Env):
    def __init__(self, env):
        self.env = env
        self.observation_space, self.action_space = env.observation_space, env.action_space


@pytest.fixture
def gym(monkeypatch):
    converts = SimpleNamespace(_convert_space=lambda space: spaces.Discrete(2))
    shimmy = SimpleNamespace(GymV26CompatibilityV0=Wrapped, openai_gym_compatibility=converts)
    monkeypatch.setitem(sys.modules, "gym", SimpleNamespace(Env=OldEnv, Space=OldSpace))
    monkeypatch.setitem(sys.modules, "shimmy", shimmy)


def test_what_is_gymnasiums_stays_as_it_is():
    env, space = gymnasium.Env(), spaces.Discrete(3)
    assert patch_non_gymnasium_env(env) is env
    assert convert_space(space) is space


@pytest.mark.usefixtures("gym")
def test_what_is_of_gym_becomes_gymnasiums():
    env = patch_non_gymnasium_env(OldEnv())
    assert isinstance(env, gymnasium.Env)
    assert (env.action_space, env.observation_space, env.num_agents) == (spaces.Discrete(2), spaces.Discrete(2), 3)
    with pytest.raises(EnvError, match="a Space neither of Gymnasium nor of Gym"):
        convert_space("space")


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gym", None)
    with pytest.raises(EnvError, match="gym is missing"):
        patch_non_gymnasium_env(OldEnv())


@pytest.mark.usefixtures("gym")
def test_only_what_has_spaces_of_gym_is_changed_unasked():
    assert isinstance(as_gymnasium(OldEnv()), gymnasium.Env)
    newer = OldEnv()
    newer.observation_space = newer.action_space = spaces.Discrete(3)
    assert as_gymnasium(newer) is newer
    assert as_gymnasium("any") == "any"
