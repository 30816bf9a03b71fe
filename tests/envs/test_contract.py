"""What an environment has to be, and that each message says which environment, what, and what is allowed."""

from __future__ import annotations

import itertools
import json
import pickle
import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.envs import contract
from sample_profiler.envs.contract import (
    EnvSpec,
    check_begun_episodes,
    check_reset_result,
    check_step_result,
    env_probed,
    inspect_env,
    name_of_env,
    only_number,
    read_episode_statistics,
)
from sample_profiler.errors import EnvContractError, EnvError, describe_error

VECTOR = spaces.Box(-1.0, 1.0, (3,), np.float32)


class FakeEnv:
    def __init__(self, observation_space=VECTOR, action_space=None, **attributes):
        self.observation_space = observation_space
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        for name, value in attributes.items():
            setattr(self, name, value)

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), 0.0, False, False, {}


def test_single_space_becomes_a_dictionary():
    spec = inspect_env(FakeEnv())
    assert spec == EnvSpec(
        observation_space=spaces.Dict({"obs": VECTOR}), action_space=spaces.Discrete(2), num_agents=1
    )
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_dictionary_stays_as_it_is():
    space = spaces.Dict({"image": spaces.Box(0, 255, (3, 8, 8), np.uint8), "level": spaces.Discrete(4)})
    assert inspect_env(FakeEnv(space)).observation_space == space


@pytest.mark.parametrize("action_space", [spaces.Discrete(4), spaces.Discrete(4, start=1), VECTOR])
def test_supported_action_spaces(action_space):
    assert inspect_env(FakeEnv(action_space=action_space)).action_space == action_space


def test_num_agents_is_found_through_wrappers():
    class Two(gymnasium.Env):
        num_agents = 2
        observation_space, action_space = VECTOR, spaces.Discrete(2)

    assert inspect_env(gymnasium.Wrapper(Two())).num_agents == 2


@pytest.mark.parametrize("method", ["reset", "step"])
def test_missing_method(method):
    with pytest.raises(EnvContractError, match=rf"environment mine: FakeEnv has no method {method}\(\)"):
        inspect_env(FakeEnv(**{method: None}), "mine")


@pytest.mark.parametrize("attribute", ["observation_space", "action_space"])
def test_missing_or_foreign_space(attribute):
    env = FakeEnv()
    setattr(env, attribute, None)
    with pytest.raises(EnvContractError, match=f"environment mine: {attribute} is missing"):
        inspect_env(env, "mine")
    setattr(env, attribute, [3])
    with pytest.raises(EnvContractError, match=f"environment mine: {attribute} is a list.*space of gymnasium"):
        inspect_env(env, "mine")


@pytest.mark.parametrize(
    ("space", "where"),
    [
        (spaces.Tuple([VECTOR, spaces.Graph(VECTOR, None)]), r"observation_space\['1'\] is Graph"),
        (spaces.Tuple([]), r"observation_space is Tuple\(\), in which there is nothing"),
        (spaces.Tuple([VECTOR, spaces.Text(3)]), r"observation_space\['1'\] is Text.* numbers of a MultiDiscrete"),
        (spaces.Text(3), "observation_space is Text"),
        (spaces.Dict({"in": spaces.Dict({"deep": spaces.Text(3)})}), r"observation_space\['in/deep'\] is Text"),
        (spaces.Box(0, 1, (2,), np.bool_), "observation_space is Box.*make it a MultiBinary"),
        (spaces.Sequence(VECTOR), "observation_space is Sequence.*its size changes from step to step"),
        (spaces.Dict({1: VECTOR, 2: VECTOR}), "observation_space has the key 1; keys are texts"),
        (spaces.Dict({"": VECTOR, "b": VECTOR}), "observation_space has the key ''; keys are texts"),
        (spaces.Dict({"in": spaces.Tuple([spaces.Dict({3: VECTOR})])}), "observation_space has the key 3; keys"),
        (spaces.Discrete(2**40), "observation_space is Discrete.*networks read as 1,099,511,627,776 numbers"),
        (spaces.MultiDiscrete([2**23] * 3), "observation_space is MultiDiscrete.*read as 25,165,824 numbers"),
        (spaces.Dict({}), r"observation_space is Dict\(\), in which there is nothing"),
        (spaces.Box(-1, 1, (0,)), r"observation_space is Box\(.*\), in which there is nothing"),
    ],
)
def test_unsupported_observation_space(space, where):
    with pytest.raises(EnvContractError, match=f"environment mine: {where}"):
        inspect_env(FakeEnv(space), "mine")


@pytest.mark.parametrize("space", [spaces.Text(2), spaces.Dict({"a": spaces.Text(2)}), spaces.Box(0, 3, (2,), int)])
def test_unsupported_action_space(space):
    with pytest.raises(
        EnvContractError, match=r"environment mine: action space .* allowed are Discrete, MultiDiscrete"
    ):
        inspect_env(FakeEnv(action_space=space), "mine")


@pytest.mark.parametrize("num_agents", [0, -1, 1.5, "two", True, 10**9])
def test_bad_num_agents(num_agents):
    with pytest.raises(EnvContractError, match="environment mine: num_agents is"):
        inspect_env(FakeEnv(num_agents=num_agents), "mine")


def test_name_of_env():
    env = gymnasium.make("CartPole-v1")
    assert name_of_env(env) == "CartPole-v1"
    env.close()
    assert name_of_env(FakeEnv()) == "FakeEnv"
    with pytest.raises(EnvContractError, match="environment FakeEnv: num_agents"):
        inspect_env(FakeEnv(num_agents=0))


SPEC = inspect_env(FakeEnv())
IMAGE_SPEC = inspect_env(FakeEnv(spaces.Dict({"image": spaces.Box(0, 255, (3, 2, 2), np.uint8)})))
TWO_AGENTS = inspect_env(FakeEnv(num_agents=2))
DISCRETE = inspect_env(FakeEnv(spaces.Dict({"room": spaces.Discrete(5, start=-1)})))
ZEROS = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("spec", "result"),
    [
        (SPEC, (ZEROS, {})),
        (SPEC, (np.zeros(3, np.float64), {})),
        (SPEC, ([0.0, 0.0, 0.0], {})),
        (SPEC, (np.full(3, np.nan, np.float32), {})),  # what becomes of them is for whoever samples to decide
        (IMAGE_SPEC, ({"image": np.zeros((3, 2, 2), np.int64)}, {})),
        (IMAGE_SPEC, ({"image": np.full((3, 2, 2), 255, np.uint16)}, {})),
        (TWO_AGENTS, ([ZEROS, ZEROS], [{}, {}])),
        (TWO_AGENTS, (np.zeros((2, 3), np.float32), ({}, {}))),
        (DISCRETE, ({"room": -1}, {})),
        (DISCRETE, ({"room": np.int64(3)}, {})),
    ],
)
def test_good_reset(spec, result):
    check_reset_result(result, spec, "mine")


@pytest.mark.parametrize(
    ("spec", "result", "message"),
    [
        (SPEC, ZEROS, r"reset\(\) returned array.*it returns \(observation, info\)"),
        (SPEC, (ZEROS, {}, 1), r"reset\(\) returned a tuple of 3"),
        (SPEC, (ZEROS, None), "info None"),
        (SPEC, (np.zeros(4, np.float32), {}), r"'obs' of shape \(4,\); observation_space says \(3,\)"),
        (IMAGE_SPEC, ({"image": np.zeros((3, 2, 2), np.float32)}, {}), "of type float32; observation_space says uint8"),
        (IMAGE_SPEC, ({"image": np.full((3, 2, 2), 256)}, {}), "of type int64; observation_space says uint8"),
        (
            IMAGE_SPEC,
            ({"image": np.full((3, 2, 2), 256, np.uint16)}, {}),
            "of type uint16; observation_space says uint8",
        ),
        (
            IMAGE_SPEC,
            ({"picture": np.zeros((3, 2, 2), np.uint8)}, {}),
            r"\['picture'\]; observation_space has \['image'\]",
        ),
        (TWO_AGENTS, ([ZEROS], [{}, {}]), "observations a list of 1; with 2 agents"),
        (DISCRETE, ({"room": 4}, {}), "observation 'room' 4; observation_space says -1 to 3"),
        (DISCRETE, ({"room": np.array(-2)}, {}), "observation 'room' -2; observation_space says -1 to 3"),
        (TWO_AGENTS, ([ZEROS, ZEROS], {}), "infos {} of type dict; with 2 agents"),
        (TWO_AGENTS, ([ZEROS, np.zeros(2)], [{}, {}]), r"agent 1 returned observation 'obs' of shape \(2,\)"),
    ],
)
def test_bad_reset(spec, result, message):
    with pytest.raises(EnvContractError, match="environment mine: .*" + message):
        check_reset_result(result, spec, "mine")


@pytest.mark.parametrize("one", [np.array, np.float32, lambda value: np.array([value]), torch.tensor,
                                 lambda value: torch.tensor([value])])  # fmt: skip
def test_an_array_of_one_number_is_that_number(one):
    for reward in (1.5, True, 3):
        check_step_result((ZEROS, one(reward), False, False, {}), SPEC, "mine")
        agents = [ZEROS, ZEROS], [one(reward), 0.5], [False, False], [False, False], [{}, {}]
        check_step_result(agents, TWO_AGENTS, "mine")
    for flag in (True, False, 1):
        check_step_result((ZEROS, 0.0, one(flag), one(not flag), {}), SPEC, "mine")
    with pytest.raises(EnvContractError, match=r"terminated .*; it is True or False"):
        check_step_result((ZEROS, 0.0, one(2), False, {}), SPEC, "mine")


@pytest.mark.parametrize("rows", [np.array, torch.tensor])
def test_so_are_rows_of_one_number_of_several_agents(rows):
    flags = rows([[True], [False]])
    check_step_result(([ZEROS, ZEROS], rows([[1.0], [2.0]]), flags, flags, [{}, {}]), TWO_AGENTS, "mine")
    check_step_result(([ZEROS, ZEROS], rows([1.0, 2.0]), flags[:, 0], flags[:, 0], [{}, {}]), TWO_AGENTS, "mine")


def test_only_number_takes_numbers_alone():
    for value in (1.5, True, None, "1", [1.0], (1.0,), np.zeros(2), np.zeros((1, 1)), np.zeros(0), {}, object()):
        assert only_number(value) is value
    assert type(only_number(np.array([2.5]))) is float
    assert type(only_number(np.array(True))) is bool


def test_nested_values_are_checked_by_their_names():
    space = spaces.Tuple([VECTOR, spaces.Dict({"a": spaces.MultiDiscrete([2, 3])})])
    spec = inspect_env(FakeEnv(space))
    check_reset_result(((ZEROS, {"a": np.array([1, 2])}), {}), spec, "mine")
    for wrong, message in (
        ((ZEROS, {"a": np.array([1, 3])}), r"observation '1/a' \[1 3\]; observation_space says \[0 0\] to \[1 2\]"),
        ((ZEROS, {"a": np.array([1])}), r"observation '1/a' of shape \(1,\)"),
        ((ZEROS, {}), r"an observation of \['0'\]; observation_space has \['0', '1/a'\]"),
        (ZEROS, r"an observation of \['obs'\]; observation_space has"),
    ):
        with pytest.raises(EnvContractError, match=message):
            check_reset_result((wrong, {}), spec, "mine")


def test_good_step():
    check_step_result((ZEROS, np.float64(1.0), np.bool_(True), False, {}), SPEC, "mine")
    check_step_result(([ZEROS, ZEROS], [0, 1.0], [False, False], np.zeros(2, bool), [{}, {}]), TWO_AGENTS, "mine")


@pytest.mark.parametrize(
    ("spec", "result", "message"),
    [
        (SPEC, (ZEROS, 0.0, False, {}), r"step\(\) returned a tuple of 4; .*truncated"),
        (SPEC, (ZEROS, [0.0], False, False, {}), "reward a list of 1; it is a single value"),
        (SPEC, (ZEROS, np.zeros(2), False, False, {}), r"reward array\(\[0., 0.\]\).*; it is a single value"),
        (SPEC, (ZEROS, np.zeros((1, 1)), False, False, {}), "reward array.*; it is a single value"),
        (SPEC, (ZEROS, np.zeros(0), False, False, {}), "reward array.*; it is a single value"),
        (SPEC, (ZEROS, np.array(["1"]), False, False, {}), "reward array.*; it is a number"),
        (SPEC, (ZEROS, np.array([None]), False, False, {}), "reward array.*; it is a number"),
        (SPEC, (ZEROS, (0.0,), False, False, {}), "reward a tuple of 1; it is a single value"),
        (SPEC, (ZEROS, 0.0, [False], False, {}), "terminated a list of 1; it is a single value"),
        (SPEC, (np.zeros(2), 0.0, False, False, {}), r"of shape \(2,\)"),
        (SPEC, (ZEROS, None, False, False, {}), "reward None.*; it is a number"),
        (SPEC, (ZEROS, "1", False, False, {}), "reward '1'.*; it is a number"),
        (SPEC, (ZEROS, 0.0, None, False, {}), "terminated None.*; it is True or False"),
        (SPEC, (ZEROS, 0.0, False, 2, {}), "truncated 2.*; it is True or False"),
        (SPEC, ([[1.0], [1.0, 2.0]], 0.0, False, False, {}), "it makes no array"),
        (TWO_AGENTS, ([ZEROS, ZEROS], 0.0, [False] * 2, [False] * 2, [{}, {}]), "reward 0.0.*one entry for each of 2"),
        (TWO_AGENTS, ([ZEROS, ZEROS], [0.0] * 2, [False] * 2, False, [{}, {}]), "truncated False"),
        (TWO_AGENTS, ([ZEROS, ZEROS], [[0.0]] * 2, [False] * 2, [False] * 2, [{}, {}]), "reward a list of 2"),
        (TWO_AGENTS, ([ZEROS, ZEROS], {0: 1.0, 1: 1.0}, [False] * 2, [False] * 2, [{}, {}]), "reward {0: 1.0, 1: 1.0}"),
        (TWO_AGENTS, ([ZEROS, ZEROS], np.zeros((2, 2)), [False] * 2, [False] * 2, [{}, {}]), "reward array"),
    ],
)
def test_bad_step(spec, result, message):
    with pytest.raises(EnvContractError, match="environment mine: .*" + message):
        check_step_result(result, spec, "mine")


def test_an_episode_tells_numbers_by_name():
    told = {"kills": np.int64(3), 7: "0.5", "deaths": np.array([4])}
    info = {"episode_extra_stats": told, "true_objective": np.float32(2), "map": "E1M1"}
    assert read_episode_statistics(info, "mine") == {"kills": 3.0, "7": 0.5, "deaths": 4.0, "true_objective": 2.0}
    assert read_episode_statistics({"true_objective": None}, "mine") == read_episode_statistics({}, "mine") == {}


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (
            {"episode_extra_stats": {"map": "E1M1"}},
            r"episode_extra_stats\['map'\] of .* is 'E1M1' of type str; it is",
        ),
        ({"episode_extra_stats": {"all": np.zeros(2)}}, r"episode_extra_stats\['all'\]"),
        ({"episode_extra_stats": {"none": None}}, r"episode_extra_stats\['none'\] .* is None"),
        ({"episode_extra_stats": [1.0]}, "episode_extra_stats is a list of 1; it is a dictionary"),
        ({"true_objective": "won"}, "true_objective of an episode's last info is 'won'"),
    ],
)
def test_an_episode_that_tells_something_else(info, message):
    with pytest.raises(EnvContractError, match=r"environment 3 \(mine\): " + message):
        read_episode_statistics(info, "environment 3 (mine)")


def test_an_environment_that_exits_in_its_constructor_is_an_error_like_any_other():
    message = "the environment mine raised in its constructor: SystemExit: 0"
    with pytest.raises(EnvError, match=message), env_probed(lambda: sys.exit(0), "mine"):
        pass


@pytest.mark.parametrize("failure", [ZeroDivisionError(), SystemExit(0)])
def test_what_an_environment_that_was_looked_at_raises_when_it_is_closed_is_told_and_ends_nothing(
    failure, caplog, monkeypatch
):
    monkeypatch.setattr(contract, "_numbers_of_raised", itertools.count(1))
    closed = []

    def close():
        closed.append(True)
        raise failure

    env = FakeEnv(close=close)
    with env_probed(lambda: env, "mine") as probe:
        assert probe is env
    assert closed == [True]
    (record,) = caplog.records
    assert record.getMessage() == (
        f"The environment mine raised in close: {describe_error(failure)} (number 1 of this process)"
    )


def test_an_action_without_any_number_is_refused():
    with pytest.raises(EnvContractError, match=r"environment mine: action_space .* has no number to choose"):
        inspect_env(FakeEnv(action_space=spaces.MultiDiscrete([])), "mine")


def test_a_number_of_agents_that_cannot_be_read_is_an_error():
    class Unready(FakeEnv):
        @property
        def num_agents(self):
            raise ValueError("not yet")

    with pytest.raises(EnvContractError, match="environment mine: num_agents raised ValueError: not yet"):
        inspect_env(Unready(), "mine")


def test_what_an_environment_is_like_comes_back_from_data():
    spec = inspect_env(FakeEnv(spaces.Tuple([VECTOR, spaces.Discrete(3)]), spaces.Dict({"a": VECTOR})), "mine")
    assert EnvSpec.from_data(json.loads(json.dumps(spec.to_data()))) == spec


@pytest.mark.parametrize("change", [{"observation_space": 3}, {"num_agents": "many"}, {"action_space": {}}])
def test_data_of_something_else_are_no_environment(change):
    data = SPEC.to_data()
    with pytest.raises(ValueError, match=r"describes no|invalid literal"):
        EnvSpec.from_data(data | change)
    with pytest.raises(ValueError, match="is no dictionary"):
        EnvSpec.from_data(data | {"observation_space": data["action_space"]})
    for nothing in (None, [], {}):
        with pytest.raises(ValueError, match="it describes no environment"):
            EnvSpec.from_data(nothing)


class OwnSpaces(FakeEnv):
    num_agents = 2


@pytest.mark.parametrize(
    ("seen", "taken", "num_kinds"),
    [
        ([spaces.Box(0, 1, (2,)), spaces.Discrete(3)], spaces.Discrete(2), 2),
        (spaces.Box(0, 1, (2,)), (spaces.Discrete(2), spaces.Box(-1, 1, (1,))), 2),
        ([spaces.Box(0, 1, (2,))] * 2, [spaces.Discrete(2)] * 2, 1),
    ],
)
def test_each_agent_may_have_spaces_of_its_own(seen, taken, num_kinds):
    spec = inspect_env(OwnSpaces(observation_space=seen, action_space=taken), "mine")
    assert len(spec.of_kinds()) == num_kinds == len(set(spec.kinds))
    for agent in range(2):
        own = spec.of_agent(agent)
        expected = seen if isinstance(seen, spaces.Space) else seen[agent]
        assert own.observation_space["obs"] == expected and not own.own_spaces and own.num_agents == 2
        assert own.action_space == (taken if isinstance(taken, spaces.Space) else taken[agent])


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (
            [spaces.Discrete(2)],
            "observation_space is a list of 1; .* a list with one for each agent, of whom there are 2",
        ),
        ([spaces.Discrete(2), 5], "observation_space is a list of 2; it has to be a space of gymnasium"),
        ([spaces.Discrete(2), spaces.Text(5)], r"observation_space\[1\] is Text.*networks read numbers"),
    ],
)
def test_lists_of_spaces_are_checked_agent_by_agent(seen, message):
    with pytest.raises(EnvContractError, match=f"environment mine: {message}"):
        inspect_env(OwnSpaces(observation_space=seen), "mine")


def test_what_an_agent_observes_is_of_its_own_space():
    env = OwnSpaces(observation_space=[spaces.Box(0, 1, (2,), np.float32), spaces.Discrete(3)])
    spec = inspect_env(env, "mine")
    check_reset_result(([np.zeros(2, np.float32), 1], [{}, {}]), spec, "mine")
    with pytest.raises(EnvContractError, match=r"reset\(\), agent 0 returned observation 'obs' of shape \(\)"):
        check_reset_result(([1, np.zeros(2, np.float32)], [{}, {}]), spec, "mine")
    with pytest.raises(EnvContractError, match=r"begin_episodes\(\) returned observation 'obs' of shape \(2,\)"):
        check_begun_episodes([np.zeros(2, np.float32)], [1], spec, "mine")
