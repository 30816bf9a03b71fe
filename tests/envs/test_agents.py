"""The one view of an environment that sampling has: lists of agents, checked at first, errors with a name."""

from __future__ import annotations

import os
import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.envs import inspect_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.errors import EnvContractError, EnvError


class Scripted(gymnasium.Env):
    """Counts its steps; remembers what it was given."""

    def __init__(self, action_space=None, observation_space=None):
        self.action_space = action_space or spaces.Discrete(3)
        self.observation_space = observation_space or spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.seeds, self.actions = [], []
        self.is_closed = False
        self.step_number = 0
        self.fails_in, self.failure = "", ZeroDivisionError("division by zero")

    def reset(self, *, seed=None, options=None):
        self._fail_if_in("reset")
        self.seeds.append(seed)
        return self._observe(), {}

    def step(self, action):
        self._fail_if_in("step")
        self.actions.append(action)
        self.step_number += 1
        return self._observe(), 0.5, False, True, {"info": self.step_number}

    def close(self):
        self.is_closed = True
        self._fail_if_in("close")

    def _observe(self):
        if isinstance(self.observation_space, spaces.Dict):
            return {"a": np.float32([self.step_number]), "b": 1}
        return np.full(2, self.step_number, np.float32)

    def _fail_if_in(self, where):
        if self.fails_in == where:
            raise self.failure


class TwoAgents(Scripted):
    num_agents = 2

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset(seed=seed)
        return [observation, observation + 1], [{}, {}]

    def step(self, actions):
        observation, reward, terminated, truncated, info = super().step(actions)
        return (
            (observation, observation + 1),
            np.array([reward, -reward]),
            np.array([terminated, True]),
            [truncated, False],
            [info, {}],
        )


@pytest.fixture
def make():
    """Wrap an environment; return the wrapper and what is inside."""

    def make(inside=None, seed=7):
        inside = inside or Scripted()
        return AgentsEnv(lambda: inside, inspect_env(inside), "my_env", 5, seed), inside

    return make


def actions(*values):
    return np.array(values).reshape(len(values), -1)


def test_one_agent_is_a_list_of_one(make):
    env, inside = make()
    assert env.num_agents == 1
    (observation,) = env.reset()
    assert observation["obs"].tolist() == [0, 0]
    observations, rewards, terminated, truncated, infos = env.step(actions(2))
    assert observations[0]["obs"].tolist() == [1, 1]
    assert (rewards, terminated, truncated, infos) == ([0.5], [False], [True], [{"info": 1}])
    assert inside.actions == [2]
    assert type(inside.actions[0]) is int


ONES = (np.array, np.float32, np.float64, lambda value: np.array([value]), torch.tensor,
        lambda value: torch.tensor([value]))  # fmt: skip


@pytest.mark.parametrize("one", ONES)
def test_an_array_of_one_number_is_that_number_in_each_step(make, one):
    outcomes = iter([(0.5, False, False), (one(1.5), one(0) == 1, False), (one(2.5), one(1) == 1, one(0) == 1)])
    inside = Scripted()
    inside.step = lambda action: (np.zeros(2, np.float32), *next(outcomes), {})
    env, _ = make(inside)
    env.reset()
    steps = [env.step(actions(0))[1:4] for _ in range(3)]
    assert steps == [([0.5], [False], [False]), ([1.5], [False], [False]), ([2.5], [True], [False])]
    for _, terminated, truncated in steps:
        assert type(terminated[0]) is type(truncated[0]) is bool


@pytest.mark.parametrize("one", ONES)
@pytest.mark.parametrize("together", [list, tuple, np.array])
def test_so_it_is_of_each_of_several_agents(make, one, together):
    if together is np.array and isinstance(one(0.0), torch.Tensor):
        together = torch.stack
    inside = TwoAgents()
    rewards, flags = (together([one(first), one(second)]) for first, second in ((1.5, 2.5), (True, False)))
    inside.step = lambda _: ([np.zeros(2, np.float32)] * 2, rewards, flags, [False, True], [{}, {}])
    env, _ = make(inside)
    env.reset()
    for _ in range(2):
        assert env.step(actions(0, 0))[1:4] == ([1.5, 2.5], [True, False], [False, True])


def test_agents_may_mix_numbers_and_arrays_of_one(make):
    inside = TwoAgents()
    flags = [False, np.array([False])]
    inside.step = lambda _: ([np.zeros(2, np.float32)] * 2, [0.0, np.array([2.5])], flags, flags, [{}, {}])
    env, _ = make(inside)
    env.reset()
    assert env.step(actions(0, 0))[1:4] == ([0.0, 2.5], [False, False], [False, False])


def test_dictionaries_stay_as_they_are(make):
    space = spaces.Dict({"a": spaces.Box(-np.inf, np.inf, (1,), np.float32), "b": spaces.Discrete(2)})
    env, _ = make(Scripted(observation_space=space))
    assert set(env.reset()[0]) == {"a", "b"}
    assert set(env.step(actions(0))[0][0]) == {"a", "b"}


def test_several_agents_are_lists_of_all(make):
    env, inside = make(TwoAgents())
    assert [o["obs"].tolist() for o in env.reset()] == [[0, 0], [1, 1]]
    observations, rewards, terminated, truncated, infos = env.step(actions(1, 2))
    assert [o["obs"].tolist() for o in observations] == [[1, 1], [2, 2]]
    # Plain lists, which those who collect them can add up, whatever the environment returns.
    assert (rewards, terminated, truncated, infos) == ([0.5, -0.5], [False, True], [True, False], [{"info": 1}, {}])
    assert all(isinstance(values, list) for values in (observations, rewards, terminated, truncated, infos))
    assert inside.actions == [[1, 2]]


def test_what_a_reset_says_of_agents_is_kept_and_a_single_one_always_has_a_part(make):
    class Resting(TwoAgents):
        def reset(self, *, seed=None, options=None):
            observations, _ = super().reset(seed=seed)
            return observations, ({"is_active": len(self.seeds) > 1}, {})

    env, _ = make(Resting())
    assert env.begin_infos == [{}, {}]
    env.reset()
    assert env.begin_infos == [{"is_active": False}, {}]
    env.begin_episodes([0, 1])
    assert env.begin_infos == [{"is_active": True}, {}]
    inner = Scripted()
    inner.reset = lambda seed=None: (np.zeros(2, np.float32), {"is_active": False})
    alone, _ = make(inner)
    alone.reset()
    assert alone.begin_infos == [{}]


def test_the_first_reset_is_seeded_and_later_ones_go_on_from_there(make):
    env, inside = make(seed=123)
    for _ in range(3):
        env.reset()
    assert inside.seeds == [123, None, None]


def test_discrete_actions_begin_where_the_space_does(make):
    env, inside = make(Scripted(action_space=spaces.Discrete(3, start=-1)))
    env.reset()
    for index in range(3):
        env.step(actions(index))
    assert inside.actions == [-1, 0, 1]


def test_continuous_actions_are_shaped_and_clipped_to_the_space(make):
    env, inside = make(Scripted(action_space=spaces.Box(np.float32([[-1, -2]]), np.float32([[1, 2]]))))
    env.reset()
    given = actions([-5.0, 1.5])
    env.step(given)
    assert inside.actions[0].tolist() == [[-1.0, 1.5]]
    assert given.tolist() == [[-5.0, 1.5]], "what the policy drew stays in the trajectory"


@pytest.mark.parametrize("action_space", [spaces.Discrete(5, start=3), spaces.Box(-1, 1, (2, 2), np.float32)])
def test_random_actions_can_be_taken_and_follow_from_the_seed(make, action_space):
    drawn = []
    for seed in (1, 1, 2):
        env, inside = make(TwoAgents(action_space=action_space), seed=seed)
        env.reset()
        drawn.append([env.random_actions([{}, {}]) for _ in range(5)])
        for given in drawn[-1]:
            assert given.shape == (2, 1 if isinstance(action_space, spaces.Discrete) else 4)
            env.step(given)
        assert all(action_space.contains(action) for both in inside.actions for action in both)
    first, same, other = (np.array(values) for values in drawn)
    assert (first == same).all()
    assert (first != other).any()


@pytest.mark.parametrize("where", ["reset", "step"])
def test_errors_of_an_environment_name_it_and_keep_their_cause(make, where):
    env, inside = make()
    if where == "step":
        env.reset()
    inside.fails_in = where
    with pytest.raises(EnvError, match=rf"environment 5 \(my_env\) raised in {where}: ZeroDivisionError") as caught:
        env.reset() if where == "reset" else env.step(actions(0))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("where", ["reset", "step"])
def test_an_environment_that_exits_is_an_error_like_any_other(make, monkeypatch, where):
    """With status 0 a run that has not done what it was asked to would end well."""
    env, inside = make()
    env.reset()
    monkeypatch.setattr(inside, where, lambda *_, **__: sys.exit(0))
    with pytest.raises(EnvError, match=rf"environment 5 \(my_env\) raised in {where}: SystemExit: 0"):
        env.reset() if where == "reset" else env.step(actions(0))


def test_an_error_in_the_constructor_names_the_environment():
    def fail():
        raise FileNotFoundError("no game")

    with pytest.raises(EnvError, match=r"environment 5 \(my_env\) raised in its constructor: FileNotFoundError"):
        AgentsEnv(fail, inspect_env(Scripted()), "my_env", 5, 0)


@pytest.mark.parametrize("kind", [Scripted, TwoAgents])
def test_the_first_episode_and_the_begin_of_the_second_are_checked_and_later_ones_cost_nothing(make, kind):
    """The last step of an episode, and what begins another one, may come from other code than the first ones."""

    class Episodes(kind):
        is_over = is_spoilt = False

        def step(self, actions):
            observation, reward, terminated, truncated, info = super().step(actions)
            flags = (np.zeros_like(terminated), np.full_like(truncated, self.is_over))
            return observation, reward, *map(np.ndarray.tolist, flags), info

        def _observe(self):
            return np.zeros(3, np.float32) if self.is_spoilt else super()._observe()

    env, inside = make(Episodes())
    given = np.zeros((env.num_agents, 1), np.int64)

    def is_refused(call):
        inside.is_spoilt = True
        with pytest.raises(EnvContractError, match="shape"):
            call()
        inside.is_spoilt = False
        call()
        return True

    assert is_refused(env.reset)
    assert is_refused(lambda: env.step(given))
    inside.is_spoilt = True
    env.step(given)
    inside.is_over = True
    assert is_refused(lambda: env.step(given))
    assert is_refused(env.reset)
    inside.is_spoilt = True
    env.step(given)
    env.reset()


def test_the_first_episodes_that_begin_one_by_one_are_checked(make):
    class OneByOne(TwoAgents):
        begun = (np.zeros(3, np.float32),)

        def begin_episodes(self, agents):
            return self.begun

    env, inside = make(OneByOne())
    env.reset()
    with pytest.raises(EnvContractError, match=r"environment my_env: begin_episodes\(\) returned observation .* shape"):
        env.begin_episodes([1])
    inside.begun = None
    with pytest.raises(EnvContractError, match=r"begin_episodes\(\) returned None.*given 1 agents"):
        env.begin_episodes([1])
    inside.begun = [np.zeros(2, np.float32)]
    env.begin_episodes([1])
    inside.begun = [np.zeros(3, np.float32)]
    env.begin_episodes([1])
    inside.begun = None
    with pytest.raises(EnvContractError, match=r"environment 5 \(my_env\): begin_episodes\(\) returned None"):
        env.begin_episodes([1])


@pytest.mark.parametrize("kind", [Scripted, TwoAgents])
@pytest.mark.parametrize("returned", [None, (1, 2, 3, 4), 7])
def test_what_cannot_be_taken_apart_later_on_breaks_the_contract_and_names_the_environment(make, kind, returned):
    env, inside = make(kind())
    given = np.zeros((env.num_agents, 1), np.int64)
    for _ in range(2):
        env.reset()
        env.step(given)
    inside.step = lambda actions: returned
    with pytest.raises(EnvContractError, match=r"environment 5 \(my_env\): step\(\) returned .*it returns \(observ"):
        env.step(given)
    inside.reset = lambda seed=None: returned
    with pytest.raises(EnvContractError, match=r"environment 5 \(my_env\): reset\(\) returned .*it returns \(observ"):
        env.reset()


@pytest.mark.parametrize("flag", [2, -1, None, "yes", float("nan"), np.int64(2), np.array([True, False])])
@pytest.mark.parametrize("kind", [Scripted, TwoAgents])
@pytest.mark.parametrize("place", [2, 3])
def test_a_flag_that_is_a_count_later_on_is_told_instead_of_an_episode_without_an_end(make, kind, place, flag):
    env, inside = make(kind())
    given = np.zeros((env.num_agents, 1), np.int64)
    env.reset()
    returned = list(inside.step(0))
    for _ in range(2):
        env.step(given)
    returned[place] = [flag, flag] if kind is TwoAgents else flag
    inside.step = lambda _: tuple(returned)
    what = ("terminated", "truncated")[place - 2]
    with pytest.raises(EnvContractError, match=rf"environment 5 \(my_env\): step\(\) returned {what} "):
        env.step(given)


@pytest.mark.parametrize("flag", [1, 1.0, np.True_, np.array([1]), torch.tensor(True)])
def test_ones_stand_for_flags_later_on(make, flag):
    env, inside = make()
    env.reset()
    env.step(actions(0))
    inside.step = lambda _: (np.zeros(2, np.float32), 0.5, flag, False, {})
    assert env.step(actions(0))[2] == [True]


@pytest.mark.parametrize("place", [1, 2, 3])
@pytest.mark.parametrize("returned", [[1.0], [1.0, 0.0, 1.0], {0: 1.0, 1: 1.0}])
def test_what_is_not_one_of_each_agent_later_on_is_told(make, place, returned):
    env, inside = make(TwoAgents())
    env.reset()
    step = list(inside.step(0))
    for _ in range(2):
        env.step(actions(0, 0))
    step[place] = returned
    inside.step = lambda _: tuple(step)
    what = ("reward", "terminated", "truncated")[place - 1]
    with pytest.raises(EnvContractError, match=rf"environment 5 \(my_env\): step\(\) returned {what} "):
        env.step(actions(0, 0))


def test_an_error_that_no_environment_is_to_blame_for_stays_what_it_is(make):
    env, _ = make()
    env.reset()
    env.step(actions(0))
    env._observations.flatten = {}.__getitem__
    with pytest.raises(TypeError, match="unhashable"):
        env.step(actions(0))
    with pytest.raises(TypeError, match="unhashable"):
        env.reset()


@pytest.mark.parametrize("failure", [ZeroDivisionError(), SystemExit(0)])
def test_closing_is_done_once_and_never_raises(make, failure):
    env, inside = make()
    inside.fails_in, inside.failure = "close", failure
    env.close()
    assert inside.is_closed
    inside.is_closed = False
    env.close()
    assert not inside.is_closed


class Nested(gymnasium.Env):
    """Observations within observations."""

    observation_space = spaces.Dict(
        {"near": spaces.Dict({"eyes": spaces.Box(0, 1, (2,), np.float32), "hands": spaces.MultiBinary(3)})}
        | {"far": spaces.Discrete(4)}
    )
    action_space = spaces.Discrete(2)

    def observe(self):
        return {"near": {"eyes": np.ones(2, np.float32), "hands": np.zeros(3, np.int8)}, "far": 2}

    def reset(self, *, seed=None, options=None):
        return self.observe(), {}

    def step(self, action):
        return self.observe(), 0.0, False, False, {}


def test_nested_observations_are_flat_for_everybody_else():
    spec = inspect_env(Nested())
    assert dict(spec.observation_space.spaces) == {
        "near/eyes": Nested.observation_space["near"]["eyes"],
        "near/hands": Nested.observation_space["near"]["hands"],
        "far": Nested.observation_space["far"],
    }
    env = AgentsEnv(Nested, spec, "nested", 0, seed=1)
    (first,) = env.reset()
    (second,), *_ = env.step(np.zeros((1, 1), np.int64))
    for observation in (first, second):
        assert sorted(observation) == ["far", "near/eyes", "near/hands"]
        np.testing.assert_array_equal(observation["near/eyes"], np.ones(2))


class InTuples(Nested):
    """Shows a Tuple with a list in it, and has actions with names."""

    observation_space = spaces.Tuple(
        [spaces.MultiDiscrete([2, 3], start=[0, 4]), spaces.Dict({"in": spaces.Tuple([spaces.Box(0, 1, (2,))])})]
    )
    action_space = spaces.Dict({"keys": spaces.MultiBinary(2), "turn": spaces.Discrete(2, start=7)})
    number = 6

    def observe(self):
        return np.array([1, self.number]), {"in": [np.ones(2, np.float32)]}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.action = action
        return super().step(action)


def test_observations_in_tuples_are_flat_and_actions_with_names_arrive_as_such(make):
    env, inside = make(InTuples())
    env.reset()
    (observation,), *_ = env.step(np.array([[1, 0, 1]]))
    assert sorted(observation) == ["0", "1/in/0"]
    np.testing.assert_array_equal(observation["0"], [1, 6])
    assert inside.action["keys"].tolist() == [1, 0]
    assert inside.action["turn"] == 8
    inside.number = 7
    with pytest.raises(
        EnvContractError, match=r"step\(\) returned observation '0' \[1 7\]; .* says \[0 4\] to \[1 6\]"
    ):
        env.step(np.array([[1, 0, 1]]))


def test_two_observations_of_one_name_are_refused():
    class Twice(Nested):
        observation_space = spaces.Dict(
            {"a": spaces.Dict({"b": spaces.Discrete(2)}), "a/b": spaces.Discrete(3)},
        )

    with pytest.raises(EnvContractError, match="become one"):
        inspect_env(Twice())


class Rooms(Nested):
    """Tells in which of five rooms it is, and one day of a sixth."""

    observation_space = spaces.Discrete(5)
    room = 4

    def observe(self):
        return self.room

    def begin_episodes(self, agents):
        return [self.room for _ in agents]


class TwoRooms(Rooms):
    num_agents = 2

    def reset(self, *, seed=None, options=None):
        return [0, self.room], [{}, {}]

    def step(self, actions):
        return [0, self.room], [0.0, 0.0], [False, False], [False, False], [{}, {}]


@pytest.mark.parametrize("kind", [Rooms, TwoRooms])
@pytest.mark.parametrize("where", ["reset", "step", "begin_episodes"])
def test_an_observation_outside_of_its_discrete_space_names_the_environment_whenever_it_comes(make, kind, where):
    env, inside = make(kind())
    given = np.zeros((env.num_agents, 1), np.int64)
    calls = {
        "reset": env.reset,
        "step": lambda: env.step(given),
        "begin_episodes": lambda: env.begin_episodes(range(env.num_agents)),
    }
    for call in calls.values():
        call()
    inside.room = 5
    message = rf"environment 5 \(my_env\): {where}\(\) returned observation 'obs' 5; observation_space says 0 to 4"
    with pytest.raises(EnvContractError, match=message):
        calls[where]()


def test_agents_end_together_or_are_inactive_from_then_on(make):
    env, _ = make(TwoAgents())
    no = [False, False]
    assert env.ended_agents([True, False], [False, True], [{}, {}]) == [0, 1]
    assert env.ended_agents([False, True], no, [{}, {"is_active": False}]) == ()
    assert env.ended_agents(no, no, [{}, {}]) == ()
    message = (
        r"environment 5 \(my_env\): agent 1 has ended its episode while others go on, .*is_active: False.*begin_ep"
    )
    for ends in (([False, True], no), (no, [False, True])):
        with pytest.raises(EnvContractError, match=message):
            env.ended_agents(*ends, [{}, {}])


def test_an_environment_in_a_process_that_was_forked_since_then_steps_there_too():
    spec = inspect_env(gymnasium.make("CartPole-v1"))
    env = AgentsEnv(lambda: gymnasium.make("CartPole-v1"), spec, "pole", 0, 1)
    env.reset()
    pid = os.fork()
    if pid == 0:
        env.step(np.zeros((1, 1), np.int64))
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
