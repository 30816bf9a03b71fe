"""Simulators that speak as Isaac Lab and Isaac Gym do: tensors, groups of observations, time_outs."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from sample_profiler.envs import inspect_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.vectors.vector_agents import VectorAgents
from sample_profiler.errors import EnvContractError
from sf_examples.isaaclab.isaaclab_env import IsaacLabVector


class Lab(gymnasium.Env):
    """Three members whose episodes take two, three and four steps; the last one's is cut off."""

    num_envs = 3
    single_observation_space = spaces.Dict(
        {"critic": spaces.Box(-9, 9, (5,), np.float32), "policy": spaces.Box(-9, 9, (2,), np.float32)}
    )
    observation_space = spaces.Dict({"policy": spaces.Box(-9, 9, (3, 2), np.float32)})
    single_action_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (3, 2), np.float32)
    lengths = torch.tensor([2, 3, 4])

    def reset(self, *, seed=None, options=None):
        self.seed = seed
        self.steps = torch.zeros(3, dtype=torch.int64)
        return self.observe(), {"log": {}}

    def step(self, action):
        assert isinstance(action, torch.Tensor)
        self.action = action
        self.steps += 1
        ended = self.steps == self.lengths
        self.steps[ended] = 0
        is_cut = torch.tensor([False, False, True])
        self.rewards = self.steps.float()
        return self.observe(), self.rewards, ended & ~is_cut, ended & is_cut, {"log": {"any": torch.ones(())}}

    def observe(self):
        self.policy = torch.stack([torch.arange(3), self.steps], 1).float()
        return {"policy": self.policy, "critic": torch.zeros(3, 5)}


class Gym(Lab):
    """The same with one flag of all ends, numbers for flags, and time_outs in the infos; nobody gives it a seed."""

    single_observation_space = spaces.Dict({"obs": spaces.Box(-9, 9, (2,), np.float32)})

    def reset(self):
        super().reset()
        return {"obs": self.policy}

    def step(self, action):
        _, rewards, terminated, truncated, infos = super().step(action)
        ended = (terminated | truncated).long()
        return {"obs": self.policy}, rewards, ended, infos | {"time_outs": truncated.float()}


class Task(Gym):
    """The same with the space of what the policy sees alone, and beside it what a critic sees."""

    single_observation_space = spaces.Box(-9, 9, (2,), np.float32)

    def reset(self):
        return super().reset() | {"states": torch.zeros(3, 5)}


def as_agents(env, **options):
    vector = VectorAgents(IsaacLabVector(env, **options), "lab")
    return AgentsEnv(lambda: vector, inspect_env(vector, "lab"), "lab", 0, seed=5)


@pytest.mark.parametrize("make", [Lab, Gym, Task])
def test_members_step_as_arrays_without_a_copy(make):
    lab = make()
    env = as_agents(lab)
    assert env.num_agents == 3
    observations, inactive = env.reset_arrays()
    assert observations["obs"].tolist() == [[0, 0], [1, 0], [2, 0]]
    assert inactive is False
    ends = []
    for _ in range(4):
        step = env.step_arrays(np.full((3, 2), 5, np.float32))
        assert step.observations["obs"].__array_interface__["data"][0] == lab.policy.data_ptr()
        assert step.rewards.__array_interface__["data"][0] == lab.rewards.data_ptr()
        ends.append((np.flatnonzero(step.terminated).tolist(), np.flatnonzero(step.truncated).tolist()))
    assert ends == [([], []), ([0], []), ([1], []), ([0], [2])]
    assert (lab.action == 1).all(), "clipped to their bounds"


def test_it_is_seeded_and_its_wrappers_are_seen_through():
    lab = Lab()
    env = as_agents(gymnasium.Wrapper(lab))
    env.reset_arrays()
    assert lab.seed == 5


def test_the_policy_may_see_another_group():
    env = as_agents(Lab(), group="critic")
    assert env.reset_arrays()[0]["obs"].shape == (3, 5)
    with pytest.raises(EnvContractError, match=r"Lab has the observations \['critic', 'policy'\], and none called rgb"):
        IsaacLabVector(Lab(), "rgb")


def test_a_simulator_may_have_no_group_that_the_policy_is_known_to_see():
    class Strange(Task):
        def reset(self):
            return {"states": torch.zeros(3, 5)}

    with pytest.raises(
        EnvContractError, match=r"Strange has the observations \['states'\], and none called policy or obs"
    ):
        as_agents(Strange()).reset_arrays()


def test_members_may_begin_anew_with_the_next_step():
    env = as_agents(Lab(), autoreset_mode=AutoresetMode.NEXT_STEP)
    env.reset_arrays()
    env.step_arrays(np.zeros((3, 2), np.float32))
    step = env.step_arrays(np.zeros((3, 2), np.float32))
    assert step.inactive(step.end_infos()).tolist() == [True, False, False]
