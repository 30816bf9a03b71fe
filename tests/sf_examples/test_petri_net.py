"""The cluster tool: the rules of its net, and that turbo is the same environment, faster."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from sample_profiler.envs import check_reset_result, check_step_result, inspect_env
from sf_examples.petri_net.cluster_tool import END_TIME, MOVES, PLACES, STATIONS, TRANSITIONS, WAIT
from sf_examples.petri_net.petri_net_env import PetriNetEnv

U, T = range(0, 12, 2), range(1, 12, 2)
"""Actions that pick up and put down, by move."""


@pytest.fixture(params=[False, True], ids=["plain", "turbo"])
def env(request):
    env = PetriNetEnv(3, turbo=request.param)
    env.reset(seed=0)
    return env


def wait(env, units):
    for _ in range(units // 5):
        result = env.step(WAIT)
    return result


def legal(env):
    return np.flatnonzero(env.simulation.mask()).tolist()


def test_the_net_has_the_places_transitions_and_actions_of_the_guide(env):
    assert len(PLACES) == 15
    assert len(TRANSITIONS) == 12
    assert env.action_space.n == 13
    route = ["LP", "s1", "s2", "s3", "s4", "s5", "LP_done"]
    names = [name for a, b in pairwise(route) for name in (f"u_{a}_{b}", f"t_{b}")]
    assert list(TRANSITIONS) == names
    assert len(set(names)) == 12, "each names one transition"
    served = [
        {STATIONS[i].name for move in MOVES if move.robot == r for i in (move.source, move.target)} for r in (0, 1)
    ]
    assert served == [{"LP", "s1", "s2", "s4", "s5", "LP_done"}, {"s2", "s3", "s4"}]


def test_it_keeps_the_contract(env):
    spec = inspect_env(env)
    check_reset_result(env.reset(seed=1), spec, "petri_net")
    check_step_result(env.step(U[0]), spec, "petri_net")


def test_a_wafer_leaves_when_it_is_done_and_a_robot_is_free(env):
    assert legal(env) == [U[0], WAIT]
    env.step(U[0])
    assert legal(env) == [T[0], WAIT], "the robot has a wafer, so it takes no other"
    env.step(T[0])
    assert legal(env) == [U[0], WAIT]
    wait(env, 60)
    assert U[1] not in legal(env), "65 units in s1, which takes 70"
    env.step(WAIT)
    assert U[1] in legal(env)


def test_a_full_station_takes_no_wafer(env):
    for _ in range(2):
        env.step(U[0])
        env.step(T[0])
    env.step(U[0])
    assert legal(env) == [WAIT], "s1 holds two, and the robot holds the third"


def test_an_action_that_is_not_legal_is_an_error(env):
    with pytest.raises(ValueError, match=r"action 2 is not legal now; legal are \[0, 12\]"):
        env.step(U[1])


def test_a_wafer_that_stays_too_long_is_scrap(env):
    env.step(U[0])
    env.step(T[0])
    # It came there 5 units before the clock after putting it down; 85 units are just allowed.
    *_, terminated, truncated, info = wait(env, 80)
    assert not terminated
    _, reward, terminated, truncated, info = env.step(WAIT)
    assert (terminated, truncated, info["is_scrapped"]) == (True, False, True)
    assert reward < -15


def test_waiting_for_ever_is_cut_off(env):
    result = wait(env, END_TIME)
    assert result[2:4] == (False, True)


def finish_all(env):
    """Take one wafer after another all the way; return the rewards."""
    rewards, is_over = [], False
    while not is_over:
        actions = [action for action in legal(env) if action != WAIT and (action != U[0] or not is_in_tool(env))]
        _, reward, is_over, _, info = env.step(max(actions, default=WAIT))
        rewards.append(reward)
    return rewards, info


def is_in_tool(env):
    places = np.rint(env.simulation.observation()[::4] * 12).astype(int)
    return any(place not in (0, 6) for place in places)


def test_all_wafers_can_be_finished(env):
    rewards, info = finish_all(env)
    assert info == {"is_scrapped": False, "episode_extra_stats": {"finished": 3.0, "scrapped": 0.0}}
    assert rewards[-1] == pytest.approx(5 + 20 - 0.025)


def same(first, second):
    assert first[1:4] == second[1:4]
    assert first[4] == second[4]
    for key, value in first[0].items():
        np.testing.assert_array_equal(value, second[0][key])
        assert value.dtype == second[0][key].dtype


def test_pn7_turbo_is_equal_at_every_step_of_a_thousand_episodes():
    random = np.random.default_rng(1)
    num_scrapped = num_steps = 0
    for episode in range(1000):
        num_wafers = 1 + episode % 6
        plain, turbo = (PetriNetEnv(num_wafers, turbo=is_turbo) for is_turbo in (False, True))
        observation, _ = plain.reset(seed=episode)
        np.testing.assert_array_equal(observation["obs"], turbo.reset(seed=episode)[0]["obs"])
        greed = random.random()
        for _ in range(400):
            actions = np.flatnonzero(observation["action_mask"])
            # Some episodes act whenever they can, others wait much: all places are reached, and all ends.
            action = int(random.choice(actions[:-1] if len(actions) > 1 and random.random() < greed else actions))
            result = plain.step(action)
            same(result, turbo.step(action))
            num_steps += 1
            observation = result[0]
            if result[2] or result[3]:
                num_scrapped += result[4]["is_scrapped"]
                break
    assert num_scrapped > 500
    assert num_steps > 20_000


def test_pn7_turbo_does_less_work_for_the_same_steps():
    """Seconds are for `scripts/profile_turbo_mode.py`; how often what is called is the same on every machine."""
    calls = {turbo: count_calls(PetriNetEnv(5, turbo=turbo), num_steps=500) for turbo in (False, True)}
    assert calls[False]["step"] == calls[True]["step"] == 2 * 500, "of environment and simulation"
    assert calls[False]["is_enabled"] >= 12 * 500, "each transition is asked in each step"
    assert calls[True]["is_enabled"] == 0
    assert calls[False].total() >= 3 * calls[True].total()


def count_calls(env, num_steps):
    """Play random legal actions, and return how many times each function written in Python was called in steps."""
    calls = Counter()

    def note(frame, event, _argument):
        if event == "call":
            calls[frame.f_code.co_name] += 1

    random = np.random.default_rng(0)
    observation, _ = env.reset(seed=0)
    for _ in range(num_steps):
        action = int(random.choice(np.flatnonzero(observation["action_mask"])))
        previous = sys.getprofile()
        sys.setprofile(note)
        try:
            observation, _, terminated, truncated, _ = env.step(action)
        finally:
            sys.setprofile(previous)
        if terminated or truncated:
            observation, _ = env.reset()
    return calls


def test_pn6_the_mask_is_that_of_the_observation_beside_it(env):
    observation, _ = env.reset()
    for _ in range(50):
        assert np.array_equal(observation["action_mask"], env.simulation.mask())
        previous = observation
        observation, *_ = env.step(int(np.flatnonzero(observation["action_mask"])[0]))
        assert not np.array_equal(previous["obs"], observation["obs"]), "time passes"
        if env.simulation.is_scrapped:
            break
