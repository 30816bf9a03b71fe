"""EnvPool's pools as vectors."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from sample_profiler.errors import EnvError, UnknownEnvError
from sf_examples.envpool.envpool_env import PoolVector, envpool_names, make_envpool_env

CFG = SimpleNamespace(env_agents=3, envpool_num_threads=1, envpool_thread_affinity_offset=-1, batched_sampling=True)


class Pool:
    metadata: ClassVar = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    single_observation_space = spaces.Dict(
        {"places": spaces.Box(-np.inf, np.inf, (4,), np.float64), "image": spaces.Box(0, 255, (2, 2), np.uint8)}
    )
    single_action_space = spaces.Box(-1, 1, (2,), np.float64)

    def __init__(self, seed):
        self.seed = seed
        pools.append(self)

    def reset(self):
        return {}, {}

    def close(self):
        self.seed = None


pools: list[Pool] = []


def test_a_pool_is_made_anew_with_the_seed_that_it_gets():
    vector = PoolVector(Pool, 3)
    vector.reset(), vector.reset(seed=2**31 + 7), vector.reset()
    assert [pool.seed for pool in pools[-2:]] == [None, 7], "the first one was closed"


def test_observations_of_doubles_are_known_as_floats():
    vector = PoolVector(Pool, 3)
    assert vector.observation_space["places"].dtype == np.float32
    assert vector.observation_space["image"] is Pool.single_observation_space["image"]
    assert vector.action_space is Pool.single_action_space
    assert (vector.num_envs, vector.metadata) == (3, Pool.metadata)


def test_without_envpool_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(EnvError, match=r"install sample-profiler\[envpool\]"):
        make_envpool_env("CartPole-v1", CFG, None)
    with pytest.raises(EnvError, match=r"install sample-profiler\[envpool\]"):
        envpool_names()


def test_a_pool_plays():
    pytest.importorskip("envpool")
    vector = make_envpool_env("Ant-v5", CFG, None)
    assert vector.reset(seed=3)[0].shape == (3, 105)
    observations, rewards, terminated, truncated, _ = vector.step(np.zeros((3, 8)))
    assert (len(observations), len(rewards), len(terminated), len(truncated)) == (3, 3, 3, 3)
    vector.close()
    with pytest.raises(UnknownEnvError, match="no environment 'Nothing'"):
        make_envpool_env("Nothing", CFG, None)
