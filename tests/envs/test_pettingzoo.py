"""Environments with PettingZoo's parallel interface, as they are registered: who is not there waits for the others."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.compat.environments.agents import as_agents
from sample_profiler.compat.environments.pettingzoo import PettingZooParallelEnv
from sample_profiler.config import parse_config
from sample_profiler.envs import inspect_env, make_env, register_env, registry
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.errors import EnvContractError

MASKED = spaces.Dict(
    {"observation": spaces.Box(0, 9, (1,), np.float32), "action_mask": spaces.Box(0, 1, (3,), np.int8)}
)


class Chase:
    """A wolf that runs for four steps after a sheep, which is caught after two; a lamb comes with the second step."""

    possible_agents = ("wolf", "sheep", "lamb")

    def observation_space(self, agent):
        return spaces.Box(-1, 1, (2,), np.float32) if agent == "wolf" else MASKED

    def action_space(self, agent):
        return spaces.Box(-1, 1, (2,), np.float32) if agent == "wolf" else spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.turn = ["wolf", "sheep"], 0
        return self.shown(), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert list(actions) == self.agents
        assert all(np.shape(action) == ((2,) if agent == "wolf" else ()) for agent, action in actions.items())
        self.turn += 1
        ends = {agent: self.turn == (2 if agent == "sheep" else 4) for agent in self.agents}
        shown = self.shown()
        self.agents = [agent for agent in self.agents if not ends[agent]] + ["lamb"] * (self.turn == 1)
        shown |= self.shown()
        return shown, dict.fromkeys(ends, 1.0), ends, dict.fromkeys(ends, False), {agent: {} for agent in shown}

    def shown(self):
        mask = np.array([1, 0, 1], np.int8)
        pair, masked = np.full(2, self.turn / 9, np.float32), {"observation": np.full(1, self.turn, np.float32)}
        return {agent: pair if agent == "wolf" else {**masked, "action_mask": mask} for agent in self.agents}

    def close(self):
        """Nothing."""


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})
    register_env("chase", lambda *_, **__: Chase())
    return make_env("chase", parse_config(["--env=chase"]), None)


def play(env, num_steps):
    agents = AgentsEnv(lambda: env, inspect_env(env, "chase"), "chase", 0, seed=1)
    observations = agents.reset()
    actions = [np.zeros(2, np.float32), np.zeros(1, np.int64), np.zeros(1, np.int64)]
    return agents, observations, [agents.step(actions) for _ in range(num_steps)]


def test_each_agent_has_the_space_that_it_is_asked_for(registered):
    spec = inspect_env(registered, "chase")
    assert (spec.num_agents, spec.kinds) == (3, (0, 1, 1))
    assert list(spec.of_agent(0).observation_space) == ["obs"]
    assert set(spec.of_agent(2).observation_space) == {"obs", "action_mask"}
    assert spec.of_agent(1).action_space == spaces.Discrete(3)


def test_who_has_ended_or_not_begun_is_inactive_and_all_end_together(registered):
    agents, observations, steps = play(registered, 4)
    assert [not info.get("is_active", True) for info in agents.begin_infos] == [False, False, True]
    assert observations[2]["obs"].shape == (1,), "an agent that is not there yet observes something of its space"
    inactive = [[not info.get("is_active", True) for info in infos] for *_, infos in steps]
    assert inactive == [[False] * 3, [False, True, False], [False, True, False], [True] * 3]
    ends = [terminated for _, _, terminated, _, _ in steps]
    assert ends == [[False] * 3, [False, True, False], [False] * 3, [True] * 3]
    assert [rewards for _, rewards, *_ in steps] == [[1, 1, 0], [1, 1, 1], [1, 0, 1], [1, 0, 1]]
    assert agents.ended_agents(*steps[1][2:]) == () and agents.ended_agents(*steps[3][2:]) == [0, 1, 2]


def test_those_of_sample_factory_begin_anew_within_the_step_that_ends_an_episode():
    agents, _, steps = play(as_agents(PettingZooParallelEnv(Chase()), "chase"), 4)
    assert agents.ends_apart
    assert [terminated for _, _, terminated, _, _ in steps] == [
        [False, False, False],
        [False, True, False],
        [False, False, False],
        [True, False, True],
    ]
    assert [not info["is_active"] for info in steps[3][-1]] == [False, False, True], "as the next episode begins"
    (first,) = agents.begin_episodes([0])
    assert first["obs"].tolist() == [0, 0]


class Alone(Chase):
    possible_agents = ("sheep",)

    def reset(self, seed=None, options=None):
        shown, infos = super().reset(seed, options)
        self.agents = ["sheep"]
        return {"sheep": shown["sheep"]}, {"sheep": infos["sheep"]}

    def step(self, actions):
        return tuple({"sheep": each["sheep"]} for each in super().step(actions))


def test_an_only_agent_is_an_environment_of_one(monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})
    register_env("alone", lambda *_, **__: Alone())
    env = make_env("alone", parse_config(["--env=alone"]), None)
    assert inspect_env(env, "alone").num_agents == 1
    observation, _ = env.reset(seed=3)
    assert set(observation) == {"obs", "action_mask"}
    observation, reward, terminated, truncated, _ = env.step(2)
    assert (observation["obs"].tolist(), reward, terminated, truncated) == ([1.0], 1.0, False, False)


def test_agents_that_take_turns_are_refused_with_the_cure(monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})
    monkeypatch.setattr(Chase, "agent_iter", lambda _: iter(()), raising=False)
    register_env("chess", lambda *_, **__: Chase())
    with pytest.raises(EnvContractError, match=r"chess: its agents take turns .*aec_to_parallel"):
        make_env("chess", parse_config(["--env=chess"]), None)


def test_an_environment_of_nobody_is_refused(monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})
    monkeypatch.setattr(Chase, "possible_agents", ())
    register_env("empty", lambda *_, **__: Chase())
    with pytest.raises(EnvContractError, match="empty: possible_agents is empty"):
        make_env("empty", parse_config(["--env=empty"]), None)
