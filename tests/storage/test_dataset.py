"""What the Learner reads out of trajectories."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.config import SamplingOptions
from sample_profiler.envs import EnvSpec
from sample_profiler.storage.dataset import Dataset
from sample_profiler.storage.sampling_plan import make_sampling_plan
from sample_profiler.storage.trajectories import Trajectories, TrajectoryLayout

SLOTS = [5, 0, 3]
ROLLOUT = 6


@pytest.fixture
def memory():
    """Trajectories in which every number says where it is: 100 * slot + step."""
    options = SamplingOptions(num_workers=1, num_envs_per_worker=2, rollout=ROLLOUT, recurrence=1, batch_size=ROLLOUT)
    space = spaces.Dict({"x": spaces.Box(-1, 1, (2,), np.float32), "image": spaces.Box(0, 255, (1, 2, 2), np.uint8)})
    spec = EnvSpec(observation_space=space, action_space=spaces.Discrete(3))
    memory = Trajectories(TrajectoryLayout.of(make_sampling_plan(options, 1), spec, state_size=4))
    place = 100 * np.arange(memory.layout.num_slots)[:, None] + np.arange(ROLLOUT + 1)
    memory.observations["x"][:] = place[..., None]
    memory.observations["image"][:] = place[..., None, None, None] % 256
    memory.states[:] = place[..., None]
    names = ("rewards", "values", "final_values", "log_probabilities", "policy_versions")
    for number, name in enumerate(names, start=1):
        getattr(memory, name)[:] = place[:, :ROLLOUT] + 1000 * number
    memory.actions[:] = place[:, :ROLLOUT, None]
    memory.action_parameters[:] = place[:, :ROLLOUT, None]
    memory.starts_episode[[5, 3], [2, 3]] = True
    return memory


def make(memory, recurrence=3):
    return Dataset(memory, SLOTS, recurrence, torch.device("cpu"))


def places(*slots_and_steps):
    return [100 * slot + step for slot, step in slots_and_steps]


def test_small_arrays_are_those_of_the_slots_in_their_order(memory):
    dataset = make(memory)
    names = ("rewards", "values", "final_values", "log_probabilities", "policy_versions")
    for number, name in enumerate(names, start=1):
        expected = [[1000 * number + 100 * slot + step for step in range(ROLLOUT)] for slot in SLOTS]
        assert getattr(dataset, name).tolist() == expected, name
    assert dataset.actions[:, :, 0].tolist() == [places(*((slot, t) for t in range(ROLLOUT))) for slot in SLOTS]
    assert dataset.action_parameters.shape == (3, ROLLOUT, 3)
    assert dataset.num_chunks == 6


def test_an_episode_starts_where_the_group_says(memory):
    starts = make(memory).starts_episode
    assert starts.nonzero().tolist() == [[0, 2], [2, 3]]
    assert starts.dtype == torch.bool


def test_valid_are_steps_of_new_weights_in_which_the_agent_had_a_part(memory):
    memory.policy_versions[:] = 7
    memory.policy_versions[5, 1], memory.policy_versions[0, 2] = 4, 5
    memory.inactive[3, 4] = True
    valid = make(memory).is_valid(version=7, max_policy_lag=2)
    assert valid.dtype == torch.bool
    assert (~valid).nonzero().tolist() == [[0, 1], [2, 4]]


def test_what_follows_the_last_step(memory):
    observations, states = make(memory).last()
    assert observations["x"][:, 0].tolist() == places(*((slot, ROLLOUT) for slot in SLOTS))
    assert observations["image"].dtype == torch.uint8
    assert states[:, 0].tolist() == places(*((slot, ROLLOUT) for slot in SLOTS))


@pytest.mark.parametrize("recurrence", [1, 2, 3, 6])
def test_chunks_are_consecutive_steps_of_one_trajectory_in_the_order_asked_for(memory, recurrence):
    dataset = make(memory, recurrence)
    assert dataset.num_chunks == 3 * ROLLOUT // recurrence
    order = np.random.default_rng(0).permutation(dataset.num_chunks)
    expected, first = [], []
    for chunk in order:
        trajectory, number = divmod(int(chunk), ROLLOUT // recurrence)
        steps = range(number * recurrence, (number + 1) * recurrence)
        expected += places(*((SLOTS[trajectory], step) for step in steps))
        first += places((SLOTS[trajectory], steps[0]))
    observations = dataset.observations(order)
    assert observations["x"][:, 0].tolist() == expected
    assert observations["image"].shape == (3 * ROLLOUT, 1, 2, 2)
    assert observations["image"].flatten(1)[:, 0].tolist() == [place % 256 for place in expected]
    assert dataset.states(order)[:, 0].tolist() == first
    # The small arrays are cut in the same way.
    assert dataset.by_chunk(dataset.actions)[order].flatten().tolist() == expected


def test_what_was_taken_does_not_change_when_slots_are_filled_again(memory):
    dataset = make(memory)
    observations = dataset.observations(np.array([0]))["x"].clone()
    taken, states = dataset.observations(np.array([0]))["x"], dataset.states(np.array([0]))
    rewards = dataset.rewards.clone()
    memory.observations["x"][:] = -1
    memory.states[:] = -1
    memory.rewards[:] = -1
    assert torch.equal(taken, observations)
    assert states.min() >= 0
    assert torch.equal(dataset.rewards, rewards)
