"""gymnax's environments as vectors; what needs gymnax is skipped without."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.components.rollout_worker.stepping_group import SteppingGroup
from sample_profiler.errors import EnvError, UnknownEnvError
from sf_examples.gymnax import gymnax_env
from sf_examples.gymnax.gymnax_env import gymnax_names, make_gymnax_env
from tests.components.rollout_worker.vector_drivers import Driver

NUM_MEMBERS = 6
CFG = SimpleNamespace(env_agents=NUM_MEMBERS, actor_worker_gpus=(0,), env_gpu_actions=True, env_gpu_observations=True)


def make(name="CartPole-v1"):
    pytest.importorskip("gymnax")
    return make_gymnax_env(name, CFG, None)


def test_without_gymnax_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnax", None)
    gymnax_env._make_simulation.cache_clear()
    for ask in (gymnax_names, lambda: make_gymnax_env("CartPole-v1", CFG, None)):
        with pytest.raises(EnvError, match=r"install sample-profiler\[gymnax\]"):
            ask()


def test_pictures_are_refused_before_anything_is_made():
    with pytest.raises(EnvError, match="gymnax's environments show no pictures here: play with --no_render"):
        make_gymnax_env("CartPole-v1", CFG, None, render_mode="rgb_array")


def test_there_are_those_that_gymnax_knows():
    pytest.importorskip("gymnax")
    assert "Breakout-MinAtar" in gymnax_names()
    with pytest.raises(UnknownEnvError, match="no environment 'Nothing'"):
        make("Nothing")


def test_final_observations_are_told_and_members_begin_anew():
    vector = make()
    first = np.asarray(vector.reset(seed=3)[0])
    assert (first.shape, first.dtype) == ((NUM_MEMBERS, 4), np.float32)
    num_ended = 0
    for _ in range(30):  # pushed to the right alone, it falls after ten steps
        observations, rewards, terminated, truncated, infos = vector.step(np.ones(NUM_MEMBERS, np.int64))
        seen, final, ended = map(np.asarray, (observations, infos["final_obs"], terminated))
        assert not np.asarray(truncated).any()
        assert (np.asarray(rewards) == 1).all()
        assert (seen[~ended] == final[~ended]).all()
        assert (abs(seen[ended]) <= 0.05).all()
        assert (abs(final[ended][:, 2]) > 0.2).all()
        num_ended += ended.sum()
    assert num_ended >= 2 * NUM_MEMBERS


def test_episodes_are_cut_off():
    vector = make("Pendulum-v1")
    vector.reset(seed=1)
    for number in range(1, 202):
        _, _, terminated, truncated, _ = vector.step(np.zeros((NUM_MEMBERS, 1), np.float32))
        assert not np.asarray(terminated).any()
        assert np.asarray(truncated).all() == (number == 200)


def test_the_same_seed_begins_in_the_same_way():
    first, same, other = (np.asarray(make().reset(seed=seed)[0]) for seed in (3, 3, 2**35 + 4))
    assert (first == same).all()
    assert (first != other).any()


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-misc", "Asterix-MinAtar", "Catch-bsuite"])
def test_members_step_as_arrays_as_they_do_one_by_one(name):
    lists, arrays = Driver(make(name), SteppingGroup), Driver(make(name))
    for _ in range(4):
        lists.do_rollouts(1), arrays.do_rollouts(1)
        assert arrays.told() == lists.told()
        assert (arrays.memory.memory == lists.memory.memory).all()


def test_it_is_said_where_it_is_simulated(caplog):
    pytest.importorskip("gymnax")
    gymnax_env._make_simulation.cache_clear()
    with caplog.at_level(logging.INFO, logger="sf_examples"):
        vector = make()
        if vector.is_on_gpu:
            pytest.skip("there is a GPU")
        told = [record.getMessage() for record in caplog.records]
        assert told == ["JAX finds no GPU: 6 environments of CartPole-v1 are simulated on the processors"]
        # Who says so is told nothing.
        make_gymnax_env("CartPole-v1", SimpleNamespace(**vars(CFG) | {"actor_worker_gpus": ()}), None)
    assert len(caplog.records) == 1


def test_spaces_are_gymnasium_s():
    vector = make("MountainCarContinuous-v0")
    assert isinstance(vector.observation_space, spaces.Box)
    assert vector.action_space == spaces.Box(-1, 1, (1,), np.float32)
