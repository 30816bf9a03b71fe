"""Training on Brax's Ant: the same to the last bit however its arrays come, and none of them is written to."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sample_profiler.envs.agents import AgentsEnv
from sf_examples.brax import brax_env
from sf_examples.brax.brax_env import BraxVector
from tests.components.vector_runs import train

pytestmark = pytest.mark.filterwarnings("ignore:Accessing .* directly from .Data. is deprecated:DeprecationWarning")

NUM_MEMBERS = 6


class Watched:
    """Ants whose simulator finds its memory as it left it.

    Args:
        speak: what JAX's arrays are handed out as.
    """

    def __init__(self, speak):
        self._vector = vector = BraxVector("ant", NUM_MEMBERS, "spring")
        self.num_envs, self.metadata = NUM_MEMBERS, vector.metadata
        self.observation_space, self.action_space = vector.observation_space, vector.action_space
        self._speak = speak
        self._returned, self._copies = [], []

    def reset(self, *, seed=None):
        observations, infos = self._vector.reset(seed=seed)
        return self._kept(observations), infos

    def step(self, actions):
        for array, copy in zip(self._returned, self._copies, strict=True):
            np.testing.assert_array_equal(array, copy)
        *outcome, infos = self._vector.step(actions)
        self._returned, self._copies = [], []
        return *map(self._kept, outcome), {"final_obs": self._kept(infos["final_obs"])}

    def _kept(self, array):
        self._returned.append(array)
        self._copies.append(np.array(array))
        return self._speak(array)


@pytest.fixture
def _short_episodes(monkeypatch):
    pytest.importorskip("brax")
    monkeypatch.setattr(brax_env, "EPISODE_STEPS", 5)


@pytest.mark.usefixtures("_short_episodes")
@pytest.mark.parametrize("flags", [("--use_rnn=False",), ("--use_rnn=True", "--recurrence=8")], ids=["MLP", "RNN"])
def test_the_checkpoint_is_the_same_to_the_last_bit(make_vector_run, monkeypatch, flags):
    flags = (*flags, "--value_bootstrap=False")
    with monkeypatch.context() as patch:
        patch.setattr(AgentsEnv, "offers_arrays", False)
        expected, episodes = train(make_vector_run("lists", Watched(lambda array: array), *flags))
    assert len(expected) > 30
    assert len(episodes) > 20
    for name, speak, wiring in (
        ("arrays of NumPy", np.asarray, "--serial_mode=False"),
        ("arrays by DLPack", lambda array: array, "--serial_mode=False"),
        ("tensors by DLPack", lambda array: array, "--serial_mode=True"),
        ("tensors", torch.from_dlpack, "--serial_mode=True"),
    ):
        run = make_vector_run(name, Watched(speak), *flags, wiring)
        assert (run.blueprint.trajectories.device is not None) == name.startswith("tensors")
        found, found_episodes = train(run)
        assert [key for key in expected if not torch.equal(found[key], expected[key])] == [], name
        assert found_episodes == episodes
