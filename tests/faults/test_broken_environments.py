"""Environments that are not what they say: one message with their name, whatever they return."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from sample_profiler.envs import register_env
from tests.faults.fuzzing import fuzzed

GOOD_OBSERVATION = np.zeros(3, np.float32)
GOOD_STEP = (GOOD_OBSERVATION, 0.5, False, False, {})


class Unprintable:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")


WEIRD = st.sampled_from(
    [
        *(None, 3, "x", b"x", (), [], {}, object(), Unprintable(), 1j, True, 2, -1, float("nan"), float("inf")),
        *(np.zeros(2), np.zeros((3, 1)), np.zeros(3, np.int64), np.full(3, np.nan), np.zeros(3, complex)),
        *(np.array([None] * 3), np.array(["a"] * 3), [[1.0], [1.0, 2.0]], [1, 2, "3"], {"obs": np.zeros(3)}),
        *({"a": {"b": 1}}, {1: 2, "a": 3}, [GOOD_OBSERVATION] * 2, (GOOD_OBSERVATION, {}), (GOOD_OBSERVATION,) * 5),
    ]
)


class Broken(gymnasium.Env):
    """Returns what its class says."""

    observation_space: Any = spaces.Box(-1, 1, (3,), np.float32)
    action_space: Any = spaces.Discrete(2)
    reset_result: Any = (GOOD_OBSERVATION, {})
    step_result: Any = GOOD_STEP

    def reset(self, *, seed=None, options=None):
        return self.reset_result

    def step(self, action):
        return self.step_result


def check(begin: Any, capsys: Any, made: Any) -> str:
    """Begin a short run of an environment, or of instances of a class, and return what it printed if it failed."""
    register_env("mine", lambda *_, **__: made() if isinstance(made, type) else made)
    status = begin("--env=mine", "--batch_size=64", "--train_for_env_steps=64", "--experiment=broken")
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert "Traceback" not in text, text
    if status == 0:
        return ""
    assert "environment mine: " in text or "(mine): " in text, text
    return text


@given(result=WEIRD)
@fuzzed
def test_what_a_reset_returns(begin, capsys, result):
    assert check(begin, capsys, type("Env", (Broken,), {"reset_result": result})()) or _is_good_reset(result)


@given(observation=WEIRD, info=WEIRD | st.just({}))
@fuzzed
def test_what_an_observation_is(begin, capsys, observation, info):
    check(begin, capsys, type("Env", (Broken,), {"reset_result": (observation, info)})())


@given(position=st.integers(0, 4), value=WEIRD.filter(lambda value: value is not True and not _is_endless(value)))
@fuzzed
def test_what_a_step_returns(begin, capsys, position, value):
    result = tuple(value if n == position else item for n, item in enumerate(GOOD_STEP))
    check(begin, capsys, type("Env", (Broken,), {"step_result": result})())


@given(which=st.sampled_from(["observation_space", "action_space"]), value=WEIRD)
@fuzzed
def test_what_a_space_is(begin, capsys, which, value):
    assert check(begin, capsys, type("Env", (Broken,), {which: value})())


@pytest.mark.parametrize("method", ["reset", "step"])
def test_a_method_that_is_missing(begin, capsys, method):
    class Other:
        observation_space, action_space = Broken.observation_space, Broken.action_space

    missing = {"reset": {"step": Broken.step}, "step": {"reset": Broken.reset}}[method]
    assert f"has no method {method}()" in check(begin, capsys, type("Env", (Other,), missing)())


@pytest.mark.parametrize("where", ["reset", "step"])
def test_a_dictionary_where_the_space_is_none(begin, capsys, where):
    observation = {"obs": GOOD_OBSERVATION}
    results = {"reset": {"reset_result": (observation, {})}, "step": {"step_result": (observation, *GOOD_STEP[1:])}}
    text = check(begin, capsys, type("Env", (Broken,), results[where])())
    assert f"{where}() returned a dictionary as observation; observation_space is Box" in text


@pytest.mark.parametrize("where", ["reset_result", "step_result"])
def test_numbers_that_are_not_finite_at_the_very_start(begin, capsys, where):
    """They are left out of training, as they are later, or end the run where that is wanted."""
    bad = np.full(3, np.nan, np.float32)
    made = type("Env", (Broken,), {where: (bad, *getattr(Broken, where)[1:])})()
    register_env("mine", lambda *_, **__: made)
    flags = ("--env=mine", "--batch_size=64", "--train_for_env_steps=64")
    assert begin(*flags, "--experiment=skip") == 0
    assert "agent 0, returned NaN in 3 of 3 numbers of observation 'obs'" in capsys.readouterr().out
    assert begin(*flags, "--experiment=stop", "--on_bad_numbers=stop") == 1
    assert "--on_bad_numbers=skip to leave such steps out of training" in capsys.readouterr().out


def test_observations_that_are_never_finite_end_the_run(begin, capsys):
    bad = np.full(3, np.nan, np.float32)
    register_env("mine", lambda *_, **__: type("Env", (Broken,), {"step_result": (bad, *GOOD_STEP[1:])})())
    assert begin("--env=mine", "--batch_size=64", "--train_for_env_steps=2000", "--experiment=never") == 1
    assert "64 steps are not finite for the 10th time in a row" in capsys.readouterr().out


@pytest.mark.parametrize("values", [(np.inf, -np.inf), (1e308, 1e308)])
def test_what_an_episode_tells_that_has_no_finite_sum(begin, capsys, values):
    class Telling(Broken):
        num_episodes = 0

        def step(self, action):
            self.num_episodes += 1
            info = {"episode_extra_stats": {"kills": values[self.num_episodes % 2]}}
            return GOOD_OBSERVATION, 0.5, True, False, info

    register_env("mine", lambda *_, **__: Telling())
    flags = ("--env=mine", "--batch_size=64", "--train_for_env_steps=64", "--save_best_metric=kills")
    assert begin(*flags, "--experiment=skip") == 0
    is_told = "returned the statistic 'kills' -inf in step 1 of an episode: it is left out" in capsys.readouterr().out
    assert is_told == (values[1] == -np.inf)
    assert begin(*flags, "--experiment=stop", "--on_bad_numbers=stop") == is_told


def test_what_an_episode_tells_that_is_no_number(begin, capsys):
    info = {"episode_extra_stats": {"map": "E1M1"}}
    text = check(begin, capsys, type("Env", (Broken,), {"step_result": (GOOD_OBSERVATION, 0.5, True, False, info)})())
    assert "(mine): episode_extra_stats['map'] of an episode's last info is 'E1M1'" in text


def test_an_observation_that_leaves_its_discrete_space_later_on(begin, capsys):
    class Rooms(Broken):
        observation_space = spaces.Discrete(5)
        reset_result = 0, {}
        room = 0.0

        def step(self, action):
            self.room += 0.125
            return int(self.room), 0.5, False, False, {}

    text = check(begin, capsys, Rooms())
    assert "(mine): step() returned observation 'obs' 5; observation_space says 0 to 4" in text


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ((np.zeros(2, np.float32), *GOOD_STEP[1:]), "returned observation 'obs' of shape (2,)"),
        ((GOOD_OBSERVATION, None, False, False, {}), "returned reward None"),
        (GOOD_STEP[:4], "returned a tuple of 4"),
    ],
)
def test_a_step_that_breaks_the_contract_later_on(begin, capsys, result, message):
    class Later(Broken):
        num_steps = 0

        def step(self, action):
            self.num_steps += 1
            return GOOD_STEP if self.num_steps < 6 else result

    assert f"(mine): step() {message}" in check(begin, capsys, Later)


def test_an_episode_that_ends_with_another_observation_than_its_space_says(begin, capsys):
    class Ending(Broken):
        observation_space = spaces.Box(0, 255, (3,), np.uint8)
        reset_result = np.zeros(3, np.uint8), {}
        num_steps = 0

        def step(self, action):
            self.num_steps += 1
            if self.num_steps == 6:
                return np.full(3, 0.5), 0.5, True, False, {}
            return np.zeros(3, np.uint8), 0.5, False, False, {}

    text = check(begin, capsys, Ending)
    assert "environment mine: step() returned observation 'obs' of type float64; observation_space says uint8" in text


def test_a_space_that_raises(begin, capsys):
    class Raising(Broken):
        @property
        def observation_space(self):
            raise RuntimeError("not yet")

    register_env("mine", lambda *_, **__: Raising())
    assert begin("--env=mine") == 2
    assert "environment mine: observation_space raised RuntimeError: not yet" in capsys.readouterr().out


def test_an_unknown_environment(begin, capsys):
    assert begin("--env=wolk") == 2
    assert "did you mean 'walk'?" in capsys.readouterr().out


def _is_good_reset(result: Any) -> bool:
    return isinstance(result, tuple) and len(result) == 2 and result[1] == {}


def _is_endless(value: Any) -> bool:
    """Rewards that are no numbers to train on are another matter."""
    return isinstance(value, float)
