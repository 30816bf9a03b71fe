"""Brax's environments as vectors; what needs Brax is skipped without."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from sample_profiler.components.rollout_worker.stepping_group import SteppingGroup
from sample_profiler.errors import EnvError
from sf_examples.brax import brax_env
from sf_examples.brax.brax_env import BraxVector, make_brax_env
from tests.components.rollout_worker.vector_drivers import Driver

# What Brax does with MJX of a later version is for those two.
pytestmark = pytest.mark.filterwarnings("ignore:Accessing .* directly from .Data. is deprecated:DeprecationWarning")

NUM_MEMBERS = 6
EPISODE_STEPS = 3
CFG = SimpleNamespace(
    env_agents=5, brax_backend="spring", clamp_actions=True, clamp_rew_obs=False, actor_worker_gpus=(0,)
)


def test_without_brax_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(EnvError, match=r"install sample-profiler\[brax\]"):
        make_brax_env("ant", CFG, None)


def test_pictures_are_refused_before_anything_is_made():
    with pytest.raises(EnvError, match="show no pictures here: play with --no_render"):
        make_brax_env("ant", CFG, None, render_mode="rgb_array")


@pytest.fixture(scope="module")
def _short_episodes():
    pytest.importorskip("brax")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(brax_env, "EPISODE_STEPS", EPISODE_STEPS)
        yield


def make(**options):
    return BraxVector("inverted_pendulum", NUM_MEMBERS, **options)


@pytest.mark.usefixtures("_short_episodes")
def test_final_observations_are_told_and_further_episodes_begin_as_the_first_did():
    vector = make()
    first = np.asarray(vector.reset(seed=3)[0])
    for number in range(1, 8):
        observations, rewards, terminated, truncated, infos = vector.step(np.zeros((NUM_MEMBERS, 1), np.float32))
        assert (terminated.dtype, truncated.dtype) == (bool, bool)
        assert not np.asarray(terminated).any()
        is_over = number % EPISODE_STEPS == 0
        assert np.asarray(truncated).tolist() == [is_over] * NUM_MEMBERS
        seen, final = np.asarray(observations), np.asarray(infos["final_obs"])
        if is_over:
            assert all(any((row == begin).all() for begin in first) for row in seen)
            assert not any((row == begin).all() for row in final for begin in first)
        else:
            assert (seen == final).all()
        assert rewards.shape == (NUM_MEMBERS,)


@pytest.mark.usefixtures("_short_episodes")
def test_the_same_seed_begins_in_the_same_way():
    first, same, other = (np.asarray(make().reset(seed=seed)[0]) for seed in (3, 3, 2**35 + 4))
    assert (first == same).all()
    assert (first != other).any()


@pytest.mark.usefixtures("_short_episodes")
def test_members_step_as_arrays_without_a_copy_as_they_do_one_by_one(monkeypatch):
    lists, arrays = Driver(make(), SteppingGroup), Driver(make())
    for _ in range(4):
        lists.do_rollouts(1), arrays.do_rollouts(1)
        assert arrays.told() == lists.told()
        assert (arrays.memory.memory == lists.memory.memory).all()
    if sys.modules["jax"].default_backend() != "cpu":
        return  # arrays of a device come to the host as copies
    vector, returned = arrays.env._env._env, []
    take_step = vector.step
    monkeypatch.setattr(vector, "step", lambda actions: returned.append(take_step(actions)) or returned[0])
    step = arrays.env.step_arrays(np.zeros((NUM_MEMBERS, 1), np.float32))
    seen = (step.observations["obs"], step.rewards, step.terminated, step.truncated, step.final_batch())
    for array, of_jax in zip(seen, (*returned[0][:4], returned[0][4]["final_obs"]), strict=True):
        assert array.__array_interface__["data"][0] == of_jax.unsafe_buffer_pointer()
    assert not step.observations["obs"].flags.writeable, "JAX believes it to be constant"


@pytest.mark.usefixtures("_short_episodes")
def test_a_start_leaves_no_trace_in_the_variables():
    import os

    make()
    assert not {"XLA_PYTHON_CLIENT_PREALLOCATE", "JAX_DEFAULT_MATMUL_PRECISION"} & os.environ.keys()
