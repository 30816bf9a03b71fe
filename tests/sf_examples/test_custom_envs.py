"""The environments one starts from."""

from __future__ import annotations

import numpy as np
import pytest

from sample_profiler.envs import check_reset_result, check_step_result, inspect_env
from sample_profiler.profiling import get_timing
from sf_examples.custom.train_custom_env import ReachEnv
from sf_examples.custom.two_agents import MatchingEnv, make_matching_env


def test_reach_keeps_the_contract_and_can_be_solved():
    env = ReachEnv()
    spec = inspect_env(env)
    result = env.reset(seed=1)
    check_reset_result(result, spec, "custom_reach")
    position, target, _ = result[0]
    for _ in range(100):
        result = env.step(2 if target > position else 0)
        check_step_result(result, spec, "custom_reach")
        position = result[0][0]
        if result[2] or result[3]:
            break
    assert result[2]
    assert abs(position - target) < 0.02


def test_reach_is_cut_off():
    env = ReachEnv()
    env.reset(seed=1)
    ends = [env.step(1)[2:4] for _ in range(100)]
    assert ends[-1] == (False, True)
    assert not any(terminated or truncated for terminated, truncated in ends[:-1])


def test_reach_shows_its_timing_blocks():
    env = ReachEnv()
    env.reset()
    env.step(1)
    assert {"physics", "observe"} <= get_timing().to_dict()["children"].keys()


def test_matching_keeps_the_contract():
    env = make_matching_env("custom_matching", None, None)
    spec = inspect_env(env)
    assert spec.num_agents == 2
    check_reset_result(env.reset(seed=0), spec, "custom_matching")
    check_step_result(env.step([0, 1]), spec, "custom_matching")


@pytest.mark.parametrize(
    ("offsets", "rewards"), [((0, 0), [1.0, 1.0]), ((0, 1), [0.5, 0.0]), ((1, 1), [0.5, 0.5]), ((1, 2), [0.0, 0.0])]
)
def test_matching_rewards(offsets, rewards):
    env = MatchingEnv()
    observations, _ = env.reset(seed=0)
    cue = int(observations[0][:4].argmax())
    assert env.step([(cue + offset) % 4 for offset in offsets])[1] == rewards


def test_matching_shows_each_agent_the_cue_and_its_number():
    first, second = MatchingEnv().reset(seed=0)[0]
    np.testing.assert_array_equal(first[:4], second[:4])
    assert (first[4:].tolist(), second[4:].tolist()) == ([1.0, 0.0], [0.0, 1.0])


def test_matching_is_cut_off_for_both_and_repeats_with_its_seed():
    env = MatchingEnv(num_steps=3)
    runs = []
    for _ in range(2):
        cues = [env.reset(seed=5)[0][0].argmax()]
        for _ in range(3):
            observations, _, terminated, truncated, _ = env.step([0, 0])
            cues.append(observations[0].argmax())
        assert (terminated, truncated) == ([False, False], [True, True])
        runs.append(cues)
    assert runs[0] == runs[1]
