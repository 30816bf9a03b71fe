"""Vectors of environments as agents whose episodes end one by one."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sample_profiler.envs import inspect_env, make_env, register_env, registry
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.vectors.vector_agents import OnlyMember, VectorAgents
from sample_profiler.errors import EnvContractError

ACTION_SPACE = spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)])


class Counting(gymnasium.Env):
    """Observations say which member, episode and step they are of; the reward is what was done."""

    observation_space = spaces.Dict({"place": spaces.Box(-1, 99, (3,), np.float32), "odd": spaces.Discrete(2)})
    action_space = ACTION_SPACE

    def __init__(self, member, length, end):
        self.member, self.length, self.end, self.episode = member, length, end, -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.num_steps = 0
        return self._observe(), {}

    def step(self, action):
        self.num_steps += 1
        is_over = self.num_steps == self.length
        reward = float(action[0] + action[1].sum())
        info = {"true_objective": 10.0 * self.member, "episode_extra_stats": {"steps": self.num_steps}}
        return self._observe(), reward, is_over and self.end == 0, is_over and self.end == 1, info if is_over else {}

    def render(self):
        return np.full((2, 2, 3), self.member, np.uint8)

    def _observe(self):
        return {"place": np.array([self.member, self.episode, self.num_steps], np.float32), "odd": self.num_steps % 2}


class Simulator:
    """Steps all members at once, begins anew within the step, and writes each observation over the one before."""

    num_agents = 3
    observation_space = spaces.Box(-1, 99, (2,), np.float32)
    action_space = spaces.Discrete(4)

    def __init__(self, *, tells_final=False):
        self.tells_final = tells_final
        self.observations = np.zeros((3, 2), np.float32)
        self.actions = []

    def reset(self, seed=None):
        self.observations[:] = 0
        return self.observations, [{}, {}, {}]

    def step(self, actions):
        self.actions.append(actions)
        self.observations[:, 1] += 1
        ended = self.observations[:, 1] == [2, 3, 99]
        infos = [
            {"true_objective": float(step)} if over else {}
            for over, step in zip(ended, self.observations[:, 1], strict=True)
        ]
        if self.tells_final:
            for member in np.flatnonzero(ended):
                infos[member]["final_observation"] = self.observations[member].copy()
        self.observations[ended] += [1, 0]
        self.observations[ended, 1] = 0
        return self.observations, actions / 2, ended, np.zeros(3, bool), infos


class InTuples(Counting):
    """The same in tuples; actions have names."""

    observation_space = spaces.Tuple(list(Counting.observation_space.values()))
    action_space = spaces.Dict({"a": ACTION_SPACE[0], "b": ACTION_SPACE[1]})

    def step(self, action):
        return super().step((action["a"], action["b"]))

    def _observe(self):
        observation = super()._observe()
        return tuple(observation[key] for key in Counting.observation_space)


@pytest.mark.parametrize("length", [2, 3])
def test_members_with_tuples_as_observations_and_dictionaries_as_actions_are_told_apart(length):
    mode = AutoresetMode.SAME_STEP
    env = as_agents(SyncVectorEnv([lambda m=m: InTuples(m, 2, 0) for m in range(length)], autoreset_mode=mode))
    assert [each["1"].astype(int).tolist() for each in env.reset()] == [[m, 0, 0] for m in range(length)]
    actions = np.tile(np.array([2, 0.5, -0.25], np.float32), (length, 1))
    for _ in range(2):
        observations, rewards, terminated, *_ = env.step(actions)
        assert rewards == [2.25] * length
    assert terminated == [True] * length
    assert [each["1"].astype(int).tolist() for each in observations] == [[m, 0, 2] for m in range(length)], "final ones"
    assert [each["0"] for each in env.begin_episodes(range(length))] == [0] * length


def make_gym_vector(mode):
    members = [(0, 2, 0), (1, 3, 1), (2, 50, 0)]
    return SyncVectorEnv([lambda member=member: Counting(*member) for member in members], autoreset_mode=mode)


def as_agents(env):
    adapted = VectorAgents(env, "mine")
    return AgentsEnv(lambda: adapted, inspect_env(adapted, "mine"), "mine", 0, seed=1)


def play(env, num_steps):
    """Step as the sampling does; return what is seen after each step, and what ended: (agent, final, info)."""
    seen, ends = [places(env.reset())], []
    for _ in range(num_steps):
        actions = np.tile(np.array([2, 0.5, -0.25], np.float32), (3, 1))
        observations, rewards, terminated, truncated, infos = env.step(actions)
        ended = env.ended_agents(terminated, truncated, infos)
        ends += [(agent, places(observations)[agent], terminated[agent], infos[agent]) for agent in ended]
        if ended:
            for agent, observation in zip(ended, env.begin_episodes(ended), strict=True):
                observations[agent] = observation
        seen.append(places(observations))
    return seen, ends, rewards


def places(observations):
    return [observation["place"].astype(int).tolist() for observation in observations]


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_members_of_a_gymnasium_vector_end_and_begin_one_by_one(mode):
    env = as_agents(make_gym_vector(mode))
    assert (env.num_agents, env.ends_apart) == (3, True)
    seen, ends, rewards = play(env, 4)
    assert [row[0] for row in seen] == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 2, 0]]
    assert [row[1] for row in seen] == [[1, 0, 0], [1, 0, 1], [1, 0, 2], [1, 1, 0], [1, 1, 1]]
    assert [row[2] for row in seen] == [[2, 0, step] for step in range(5)]
    assert [end[:3] for end in ends] == [(0, [0, 0, 2], True), (1, [1, 0, 3], False), (0, [0, 1, 2], True)]
    assert ends[1][3]["true_objective"] == 10.0
    assert ends[1][3]["episode_extra_stats"] == {"steps": 3}
    assert rewards == [2.25, 2.25, 2.25], "each part of the action arrived"


def test_members_that_begin_with_the_next_step_are_inactive_in_it():
    env = as_agents(make_gym_vector(AutoresetMode.NEXT_STEP))
    seen, ends, _ = play(env, 4)
    assert [row[0] for row in seen] == [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 1]]
    assert [end[:3] for end in ends] == [(0, [0, 0, 2], True), (1, [1, 0, 3], False)]
    assert all(end[3]["is_active"] is False for end in ends)


@pytest.mark.parametrize("tells_final", [False, True])
def test_a_simulator_may_write_over_what_it_returned_and_tell_the_final_observation(tells_final):
    simulator = Simulator(tells_final=tells_final)
    env = as_agents(simulator)
    assert env.reset()[0]["obs"].tolist() == [0, 0]
    first = env.step(np.array([[0], [1], [3]]))
    assert first[1] == [0.0, 0.5, 1.5]
    assert simulator.actions[0].tolist() == [0, 1, 3]
    observations, _, terminated, truncated, infos = env.step(np.array([[0], [0], [0]]))
    assert terminated == [True, False, False]
    assert observations[0]["obs"].tolist() == ([0, 2] if tells_final else [0, 1]), "else the one before stands for it"
    assert infos[0]["true_objective"] == 2.0
    assert env.begin_episodes(env.ended_agents(terminated, truncated, infos))[0]["obs"].tolist() == [1, 0]
    env.step(np.array([[0], [0], [0]]))
    assert first[0][0]["obs"].tolist() == [0, 1], "a simulator's memory is not handed out"


def test_infos_of_arrays_may_say_who_is_active():
    class Resting(Simulator):
        def step(self, actions):
            *rest, _ = super().step(actions)
            return *rest, {"is_active": np.array([True, False, True]), "true_objective": np.array([4.0, 5.0, 6.0])}

        def reset(self, **keywords):
            observations, _ = super().reset(**keywords)
            return observations, self.told

    Resting.told = {"is_active": np.array([True, True, False])}
    env = as_agents(Resting())
    env.reset()
    assert [info["is_active"] for info in env.begin_infos] == [True, True, False]
    for Resting.told in ([{"is_active": False}, {}, {}], ({"is_active": False}, {}, {})):
        env.reset()
        assert env.begin_infos == [{"is_active": False}, {}, {}]
    for Resting.told in (None, "anything", [{}], [1, 2, 3], {}):
        env.reset()
        assert env.begin_infos == [{}, {}, {}], "a vector's reset need not say anything of its members"
    assert [info["is_active"] for info in env.step(np.zeros((3, 1), int))[4]] == [True, False, True]
    assert env.step(np.zeros((3, 1), int))[4][0]["true_objective"] == 4.0


@pytest.mark.parametrize("rows", [lambda values: np.asarray(values)[:, None], lambda values: [[v] for v in values]])
def test_what_there_is_one_of_for_each_member_may_be_rows_of_one(rows):
    class InRows(Simulator):
        def step(self, actions):
            observations, *outcome, infos = super().step(actions)
            return observations, *map(rows, outcome), infos

    plain, env = as_agents(Simulator()), as_agents(InRows())
    plain.reset(), env.reset()
    for _ in range(2):
        chosen = np.array([[0], [1], [3]])
        assert env.step(chosen)[1:4] == plain.step(chosen)[1:4]


def test_the_picture_is_that_of_the_first_member():
    env = as_agents(make_gym_vector(AutoresetMode.SAME_STEP))
    env.reset()
    assert env.render().shape == (2, 2, 3)
    env.close()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rewards": np.zeros(2)}, r"step\(\) returned reward .* it is a list with one entry for each of 3 agents"),
        ({"observations": np.zeros((3, 5), np.float32)}, r"agent 0 returned observation 'obs' of shape \(5,\)"),
        ({"observations": np.zeros((2, 2), np.float32)}, "with 3 agents that is a list with one entry for each"),
    ],
)
def test_what_is_not_of_the_batch_is_named(change, problem):
    class Broken(Simulator):
        def step(self, actions):
            observations, rewards, *rest = super().step(actions)
            return change.get("observations", observations), change.get("rewards", rewards), *rest

    env = as_agents(Broken())
    env.reset()
    with pytest.raises(EnvContractError, match=problem):
        env.step(np.zeros((3, 1), int))


def test_an_old_interface_is_named():
    class Old(Simulator):
        def step(self, actions):
            return super().step(actions)[:4]

    env = as_agents(Old())
    env.reset()
    with pytest.raises(EnvContractError, match=r"step\(\) returned a tuple of 4"):
        env.step(np.zeros((3, 1), int))


class Flags:
    batched_sampling = True


@pytest.fixture
def _mine(monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})


@pytest.mark.usefixtures("_mine")
def test_a_vector_is_adapted_where_the_flag_asks_for_one():
    register_env("vector", lambda *_, **__: Simulator())
    assert isinstance(make_env("vector", Flags(), None), VectorAgents)
    assert isinstance(make_env("vector", None, None), Simulator)


@pytest.mark.usefixtures("_mine")
@pytest.mark.parametrize("num_agents", [None, 1])
def test_the_flag_leaves_what_is_no_vector_as_it_is(num_agents):
    single = Counting(0, 1, 0)
    if num_agents:
        single.num_agents = num_agents
    register_env("single", lambda *_, **__: single)
    assert make_env("single", Flags(), None) is single


@pytest.mark.usefixtures("_mine")
def test_the_flag_leaves_agents_that_begin_their_own_episodes_as_they_are():
    agents = VectorAgents(Simulator())
    register_env("agents", lambda *_, **__: agents)
    assert make_env("agents", Flags(), None) is agents


@pytest.mark.usefixtures("_mine")
@pytest.mark.parametrize("kind", [list, tuple])
def test_the_flag_leaves_agents_with_spaces_of_their_own_as_they_are(kind):
    agents = Simulator()
    agents.action_space = kind([spaces.Discrete(2)] * 3)
    register_env("agents", lambda *_, **__: agents)
    assert make_env("agents", Flags(), None) is agents


@pytest.mark.usefixtures("_mine")
@pytest.mark.parametrize("size", [0, True, "3"])
def test_a_vector_that_does_not_say_how_many_members_it_has_is_named(size):
    simulator = Simulator()
    simulator.num_agents, simulator.num_envs = None, size
    register_env("broken", lambda *_, **__: simulator)
    with pytest.raises(EnvContractError, match=f"broken with --batched_sampling=True: .* and has {size!r}"):
        make_env("broken", Flags(), None)


@pytest.mark.usefixtures("_mine")
def test_a_simulator_of_several_environments_may_count_the_agents_of_each():
    simulator = Simulator()
    simulator.num_agents, simulator.num_envs = 1, 3
    register_env("vector", lambda *_, **__: simulator)
    assert make_env("vector", Flags(), None).num_agents == 3


@pytest.mark.usefixtures("_mine")
def test_a_wrapper_that_shows_one_agent_of_several_is_one_environment():
    class OneOfThem(gymnasium.Wrapper):
        num_agents = 1

    inner = Counting(0, 1, 0)
    inner.num_agents = 3
    register_env("one", lambda *_, **__: OneOfThem(inner))
    assert isinstance(make_env("one", Flags(), None), OneOfThem)


@pytest.mark.usefixtures("_mine")
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_only_member_of_a_vector_is_one_environment(mode):
    vector = SyncVectorEnv([lambda: Counting(7, 2, 0)], autoreset_mode=mode)
    register_env("one", lambda *_, **__: vector)
    only = make_env("one", Flags(), None)
    assert isinstance(only, OnlyMember)
    env = AgentsEnv(lambda: only, inspect_env(only, "one"), "one", 0, seed=1)
    assert (env.num_agents, env.ends_apart) == (1, False)
    seen, ends = [places(env.reset())[0]], []
    for _ in range(4):
        observations, rewards, terminated, truncated, infos = env.step(np.array([[2, 0.5, -0.25]], np.float32))
        assert rewards == [2.25]
        if env.ended_agents(terminated, truncated, infos):
            ends.append((places(observations)[0][2], infos[0]["true_objective"]))
            observations = env.begin_episodes([0])
        seen.append(places(observations)[0])
    assert [place[2] for place in seen] == [0, 1, 0, 1, 0], "steps"
    assert ends == [(2, 70.0), (2, 70.0)], "final observations and infos"


class Team:
    """Two agents by the contract of several: lists, one end for both, no beginning by itself."""

    num_agents = 2
    observation_space = spaces.Dict({"place": spaces.Box(-1, 99, (1,), np.float32)})
    action_space = ACTION_SPACE

    def __init__(self, *, waits=False):
        self.waits, self.num_steps, self.actions = waits, -1, []

    def reset(self, *, seed=None, options=None):
        self.num_steps = 0
        return self.observe(), [{}, {}]

    def step(self, actions):
        self.actions.append(actions)
        self.num_steps += 1
        is_over = self.num_steps >= 3
        first_ends = is_over or (self.waits and self.num_steps >= 2)
        return self.observe(), [1.0, 2.0], [first_ends, is_over], [False, False], [{"is_active": not first_ends}, {}]

    def observe(self):
        return [{"place": np.array([self.num_steps], np.float32)} for _ in range(2)]


def test_agents_that_do_not_begin_by_themselves_are_asked_to():
    team = Team()
    env = as_agents(team)
    seen, lengths = [env.reset()[0]["place"].item()], []
    for _ in range(7):
        observations, _, terminated, truncated, infos = env.step(np.array([[2, 0.5, -0.25], [1, 0, 0]], np.float32))
        if ended := env.ended_agents(terminated, truncated, infos):
            lengths.append(team.num_steps)
            for agent, observation in zip(ended, env.begin_episodes(ended), strict=True):
                observations[agent] = observation
        seen.append(observations[0]["place"].item())
    assert seen == [0, 1, 2, 0, 1, 2, 0, 1]
    assert lengths == [3, 3]
    assert [action[0] for action in team.actions[0]] == [2, 1], "one action for each agent"


def test_agents_that_wait_for_others_are_no_vector():
    env = as_agents(Team(waits=True))
    env.reset()
    actions = np.zeros((2, 3), np.float32)
    env.step(actions)
    with pytest.raises(EnvContractError, match=r"--batched_sampling=True: agent 0 has ended .* leave the flag out"):
        env.step(actions)


def test_a_vector_is_not_one_environment():
    with pytest.raises(EnvContractError, match="is a vector of environments: add --batched_sampling=True"):
        inspect_env(make_gym_vector(AutoresetMode.SAME_STEP))
