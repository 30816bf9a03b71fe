"""Environments that begin their next episode within the step that ends one, as lists and as dictionaries of arrays."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.compat.environments.agents import WholeEpisodes, as_agents, get_multiagent_info
from sample_profiler.compat.environments.batched import BatchedVecEnv
from sample_profiler.envs import EnvSpec, inspect_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.errors import EnvContractError, UsageError

LENGTHS = (2, 3)  # of the episodes of two agents


class SelfResetting(gymnasium.Env):
    """Shows the number of each agent's episode and of its step; agents end apart, or together."""

    def __init__(self, form, num_agents=2, together=False):
        self.form, self.num_agents, self.together = form, num_agents, together
        self.is_multiagent = True
        self.action_space = spaces.Discrete(3)
        box = spaces.Box(0, 100, (2,), np.float32)
        self.observation_space = box if form == "lists" else spaces.Dict({"obs": box})
        self.actions = []

    def reset(self, **_keywords):
        self.seen = np.zeros((self.num_agents, 2), np.float32)
        return self.shown(), [{} for _ in self.seen] if self.form == "lists" else {}

    def step(self, actions):
        self.actions.append(actions)
        self.seen[:, 1] += 1
        lengths = np.array(LENGTHS[: self.num_agents])
        ended = (
            np.full(self.num_agents, (self.seen[:, 1] >= lengths.max()).all())
            if self.together
            else self.seen[:, 1] >= lengths
        )
        self.seen[ended, 0] += 1
        self.seen[ended, 1] = 0
        infos = [{"true_objective": 5.0} if over else {} for over in ended]
        rewards = np.ones(self.num_agents, np.float32)
        if self.form == "lists":
            return self.shown(), rewards.tolist(), ended.tolist(), ended.tolist(), infos
        return self.shown(), rewards, ended, np.zeros_like(ended), infos

    def shown(self):
        return [row.copy() for row in self.seen] if self.form == "lists" else {"obs": self.seen}


def agents_env(env):
    adapted = as_agents(env, "mine")
    return AgentsEnv(lambda: adapted, inspect_env(adapted, "mine"), "mine", 0, seed=1)


@pytest.mark.parametrize("form", ["lists", "dictionary"])
def test_agents_go_on_with_the_episode_that_the_environment_has_begun(form):
    env = agents_env(SelfResetting(form))
    assert env.ends_apart
    assert [list(each["obs"]) for each in env.reset()] == [[0, 0], [0, 0]]
    ends = []
    for _ in range(6):
        observations, rewards, terminated, truncated, infos = env.step(np.zeros((2, 1), np.int64))
        assert rewards == [1.0, 1.0]
        ended = env.ended_agents(terminated, truncated, infos)
        ends.append(list(ended))
        if ended:
            # The final observation is not known: the one before stands for it.
            assert all(observations[agent]["obs"][1] == LENGTHS[agent] - 1 for agent in ended)
            assert all(infos[agent]["true_objective"] == 5.0 for agent in ended)
            begun = env.begin_episodes(ended)
            assert all(list(each["obs"]) == [each["obs"][0], 0] and each["obs"][0] > 0 for each in begun)
    assert ends == [[], [0], [1], [0], [], [0, 1]]


def test_agents_that_end_together_are_not_begun_twice():
    env = agents_env(SelfResetting("lists", together=True))
    env.reset()
    for _ in range(3):
        _, _, terminated, truncated, infos = env.step(np.zeros((2, 1), np.int64))
    assert list(env.ended_agents(terminated, truncated, infos)) == [0, 1]
    assert [list(each["obs"]) for each in env.begin_episodes([0, 1])] == [[1, 0], [1, 0]]


def test_actions_come_in_the_form_of_observations():
    lists, arrays = SelfResetting("lists"), SelfResetting("dictionary")
    for env in (lists, arrays):
        agents = agents_env(env)
        agents.reset()
        agents.step(np.array([[2], [1]]))
    assert isinstance(lists.actions[0], list) and lists.actions[0] == [2, 1]
    assert isinstance(arrays.actions[0], np.ndarray) and arrays.actions[0].tolist() == [2, 1]


@pytest.mark.parametrize("form", ["lists", "dictionary"])
def test_a_single_agent_in_lists_is_one_agent(form):
    assert get_multiagent_info(SelfResetting(form, num_agents=1)) == (True, 1)
    env = agents_env(SelfResetting(form, num_agents=1))
    assert env.num_agents == 1
    (first,) = env.reset()
    assert list(first["obs"]) == [0, 0]
    observations, rewards, *_ = env.step(np.array([[2]]))
    assert list(observations[0]["obs"]) == [0, 1] and rewards == [1.0]


def test_a_reset_without_a_seed_is_called_without_one():
    class Old(gymnasium.Env):
        observation_space, action_space = spaces.Box(0, 1, (1,)), spaces.Discrete(2)

        def reset(self):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.zeros(1, np.float32), 0.0, False, False, {}

    env = as_agents(Old(), "mine")
    assert env.reset(seed=3)[1] == {}
    assert isinstance(inspect_env(env, "mine"), EnvSpec)
    plain = gymnasium.make("CartPole-v1")
    assert as_agents(plain, "cart").unwrapped is plain.unwrapped
    assert as_agents(plain, "cart").reset(seed=3)[0].tolist() == plain.reset(seed=3)[0].tolist(), "the seed gets there"


def test_the_return_of_a_whole_game_is_the_objective_where_it_is_told():
    env = WholeEpisodes(gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1")))
    env.reset(seed=1)
    infos = []
    while not infos or "episode" not in infos[-1]:
        infos.append(env.step(1)[-1])
    assert infos[-1]["true_objective"] == len(infos)
    assert "true_objective" not in infos[0]


class DifferentAgents(SelfResetting):
    """The same agents, of whom the second observes a number alone, and moves along a line."""

    def __init__(self):
        super().__init__("lists")
        self.observation_space = [self.observation_space, spaces.Discrete(10)]
        self.action_space = [self.action_space, spaces.Box(-1, 1, (1,), np.float32)]

    def shown(self):
        return [self.seen[0].copy(), int(self.seen[1, 1])]


def test_agents_with_spaces_of_their_own_go_on_with_the_episodes_that_they_have_begun():
    env = agents_env(DifferentAgents())
    assert env.ends_apart and not env.offers_arrays
    assert [np.ravel(each["obs"]).tolist() for each in env.reset()] == [[0, 0], [0]]
    actions = [np.array([1]), np.array([0.5], np.float32)]
    env.step(actions)
    observations, rewards, terminated, _, infos = env.step(actions)
    assert (terminated, rewards) == ([True, False], [1.0, 1.0])
    assert [np.ravel(each["obs"]).tolist() for each in observations] == [[0, 1], [2]], "the one before is the final one"
    assert infos[0] == {"true_objective": 5.0}
    (begun,) = env.begin_episodes([0])
    assert begun["obs"].tolist() == [1, 0]
    observations, *_ = env.step(actions)
    assert [np.ravel(each["obs"]).tolist() for each in observations] == [[1, 1], [2]]


def test_they_have_no_batch():
    with pytest.raises(UsageError, match="agents with spaces of their own have no batch"):
        BatchedVecEnv(DifferentAgents())


class LastAction(gymnasium.Env):
    """Shows the latest action as an array of one entry, by itself or beside a vector."""

    def __init__(self, is_dict):
        self.action_space = spaces.Discrete(3)
        box = spaces.Box(0, 1, (1,), np.float32)
        self.is_dict = is_dict
        self.observation_space = spaces.Dict(last=spaces.Discrete(3), obs=box) if is_dict else spaces.Discrete(3)

    def reset(self):
        return self.shown(0), {}

    def step(self, action):
        return self.shown(action), 0.0, False, False, {}

    def shown(self, action):
        last = np.array([action])
        return {"last": last, "obs": np.zeros(1, np.float32)} if self.is_dict else last


@pytest.mark.parametrize("is_dict", [True, False])
def test_discrete_observations_may_be_arrays_of_one_entry(is_dict):
    env = agents_env(LastAction(is_dict))
    env.reset()
    (observation,), *_ = env.step(np.array([[2]]))
    assert observation["last" if is_dict else "obs"] == 2
    assert not is_dict or observation["obs"].shape == (1,)


def test_what_is_no_result_goes_on_to_whoever_checks_it():
    env = LastAction(is_dict=False)
    env.reset = lambda: 0
    with pytest.raises(EnvContractError, match="written for gym before"):
        agents_env(env).reset()


@pytest.mark.parametrize(("form", "batched"), [("lists", True), ("dictionary", True), ("dictionary", False)])
def test_arrays_of_tuples_have_a_column_for_each_discrete_part_and_are_apart_otherwise(form, batched):
    buttons, move = spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)
    given = {}
    for name, space in {"columns": spaces.Tuple([buttons, buttons]), "apart": spaces.Tuple([buttons, move])}.items():
        env = SelfResetting(form)
        env.action_space = space
        adapted = as_agents(env, "mine", batched=batched)
        agents = AgentsEnv(lambda env=adapted: env, inspect_env(adapted, "mine"), "mine", 0, seed=1)
        agents.reset()
        agents.step(np.array([[2, 1, 0.5], [1, 0, 0.25]])[:, : 2 if name == "columns" else 3])
        (given[name],) = env.actions
    assert isinstance(given["columns"], np.ndarray) and given["columns"].tolist() == [[2, 1], [1, 0]]
    assert isinstance(given["apart"], list)
    assert [part.tolist() for part in given["apart"]] == [[2, 1], [[1, 0.5], [0, 0.25]]]


def test_tensors_are_put_side_by_side_as_tensors():
    env = SelfResetting("dictionary")
    env.action_space = spaces.Tuple([spaces.Discrete(3)] * 2)
    vector = as_agents(env, "mine")._env
    vector.reset()
    vector.step((torch.tensor([2, 1]), torch.tensor([0, 1])))
    assert torch.equal(env.actions[0], torch.tensor([[2, 0], [1, 1]]))


class Parts(gymnasium.Env):
    """Takes actions of several parts, changes them, and tells much of its episodes."""

    observation_space = spaces.Box(0, 100, (2,), np.float32)

    def __init__(self, kinds, told=None):
        self.action_space = spaces.Tuple(
            [spaces.Discrete(3) if kind == "d" else spaces.Box(-1, 1, (2,)) for kind in kinds]
        )
        self.told, self.actions = told, []

    def reset(self, **_keywords):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        action[0] = action[0]
        self.actions.append(action)
        return np.zeros(2, np.float32), 1.0, True, False, {"episode_extra_stats": self.told}


@pytest.mark.parametrize(("kinds", "expected"), [("dd", np.ndarray), ("db", list)])
def test_actions_of_several_parts_are_arrays_of_numbers_or_lists(kinds, expected):
    inside = Parts(kinds)
    env = agents_env(inside)
    env.reset()
    width = sum(1 if kind == "d" else 2 for kind in kinds)
    env.step(np.ones((1, width), np.float32))
    (action,) = inside.actions
    assert type(action) is expected and len(action) == 2
    if expected is np.ndarray:
        assert (action.dtype, action.tolist()) == (np.int32, [1, 1])


def test_of_what_an_episode_tells_numbers_are_taken_and_the_rest_is_said_once(caplog):
    told = {
        **{"steps": 3, "share": np.float32(0.5), "scores": np.array([1.0, 3.0]), "lives": [1, 2], "won": True},
        **{"task": {"doors": torch.tensor([2.0, 4.0]), "inner": {"keys": 7}}},
        **{"video": b"\0", "map": "e1m1", "ragged": [[1], [1, 2]], "nothing": []},
    }
    env = agents_env(Parts("dd", told))
    env.reset()
    for _ in range(2):
        infos = env.step(np.zeros((1, 2), np.int64))[4]
        assert infos[0]["episode_extra_stats"] == {
            **{"steps": 3, "share": 0.5, "scores": 2, "lives": 1.5, "won": 1, "doors": 3, "keys": 7}
        }
    left_out = [record.getMessage() for record in caplog.records]
    assert len(left_out) == 4 and all("is left out" in text for text in left_out)


def test_several_agents_tell_in_numbers_too():
    class Telling(SelfResetting):
        def step(self, actions):
            *others, infos = super().step(actions)
            return *others, [{**info, "episode_extra_stats": {"place": {"x": 1, "y": "far"}}} for info in infos]

    env = agents_env(Telling("lists"))
    env.reset()
    infos = env.step(np.zeros((2, 1), np.int64))[4]
    assert [info["episode_extra_stats"] for info in infos] == [{"x": 1.0}] * 2
