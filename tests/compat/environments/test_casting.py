"""Observations get the types that their spaces say, as Sample Factory copies them into arrays of these."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.compat.environments import casting
from sample_profiler.compat.environments.agents import as_agents
from sample_profiler.compat.environments.casting import DeclaredTypes
from sample_profiler.envs import inspect_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.errors import EnvContractError

PLACE = spaces.Box(-9, 9, (2,), dtype=np.int64)
SPACE = spaces.Dict({"xy": PLACE, "obs": spaces.Box(0, 1, (3,), np.float32), "kind": spaces.Discrete(4)})


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    monkeypatch.setattr(casting, "_told", set())


def shown(step=0.0):
    return {"xy": np.array([step, -1.0], np.float32), "obs": [0.0, 0.5, 1.0], "kind": np.array([2])}


class OtherTypes(gymnasium.Env):
    """Returns floats and lists where its space says whole numbers and arrays.

    Args:
        form: "one" agent, "only" agent of several that there may be, "lists", "arrays", or "own" spaces of each.
    """

    def __init__(self, form):
        self.form, self.step_number = form, 0
        self.num_agents = 1 if form in ("one", "only") else 2
        if form != "one":
            self.is_multiagent = True
        own = spaces.Dict({"xy": PLACE})
        self.observation_space = [SPACE, own] if form == "own" else own if form == "arrays" else SPACE
        self.action_space = [spaces.Discrete(2)] * 2 if form == "own" else spaces.Discrete(2)

    def look(self):
        seen = shown(self.step_number)
        if self.form == "arrays":
            return {"xy": np.stack([seen["xy"]] * 2)}
        both = [seen, {"xy": seen["xy"]} if self.form == "own" else seen]
        return seen if self.form == "one" else both[: self.num_agents]

    def reset(self, *, seed=None, options=None):
        self.step_number = 0
        return self.look(), {} if self.form in ("one", "arrays") else [{}] * self.num_agents

    def step(self, action):
        self.step_number += 1
        if self.form == "one":
            return self.look(), 0.0, False, False, {}
        rest = [[value] * self.num_agents for value in (0.0, False, False)]
        infos = {} if self.form == "arrays" else [{}] * self.num_agents
        return self.look(), *map(np.array, rest), infos


@pytest.mark.parametrize("form", ["one", "only", "lists", "arrays", "own"])
def test_other_types_are_cast_in_every_form_of_environment(form):
    adapted = as_agents(OtherTypes(form), "mine")
    spec = inspect_env(adapted, "mine")
    env = AgentsEnv(lambda: adapted, spec, "mine", 0, seed=1)
    width = 1 if form in ("one", "only") else 2
    for observations in (env.reset(), env.step(np.zeros((width, 1), np.int64))[0]):
        for observation in observations:
            assert observation["xy"].dtype == np.int64
    assert [each["xy"].tolist() for each in observations] == [[1, -1]] * width


def test_only_what_changes_numbers_is_warned_of_and_once(caplog):
    for _ in range(2):
        types = DeclaredTypes(SPACE)
        observed = types.of_one(shown(3.0))
        assert types.of_one({"obs": np.full(3, 0.1)})["obs"].dtype == np.float32
    assert not caplog.messages
    for _ in range(2):
        assert DeclaredTypes(SPACE).of_one(shown(0.5))["xy"].tolist() == [0, -1]
    assert (observed["obs"].dtype, observed["kind"]) == (np.float32, 2)
    assert caplog.messages == [
        "Observations 'xy' come as float32, and their space says int64: they are cast, as Sample Factory casts them"
    ]


def test_what_has_its_type_is_not_copied_and_what_cannot_be_cast_is_left_to_the_check():
    types = DeclaredTypes(PLACE)
    right, ragged, tensor = np.zeros(2, np.int64), [[1], [2, 3]], torch.zeros(2)
    assert types.of_one(right) is right
    for odd in (ragged, tensor, "text", None, {"xy": 1}):
        assert types.of_one(odd) is odd
    assert DeclaredTypes(SPACE).of_one(None) is None


@pytest.mark.parametrize("form", ["own", "only"])
def test_spaces_that_are_missing_are_left_to_the_check(form):
    env = OtherTypes(form)
    env.observation_space = [SPACE] if form == "own" else []
    with pytest.raises(EnvContractError):
        inspect_env(as_agents(env, "mine"), "mine")


def test_tuples_and_nested_spaces_stay_as_they_are():
    nested = spaces.Dict({"inner": spaces.Dict({"xy": PLACE})})
    observation = {"inner": {"xy": np.zeros(2, np.float32)}}
    assert not DeclaredTypes(nested)
    assert not DeclaredTypes(spaces.Tuple((PLACE, PLACE)))
    assert not DeclaredTypes(None)
    assert DeclaredTypes(nested).of_one(observation)["inner"] is observation["inner"]
