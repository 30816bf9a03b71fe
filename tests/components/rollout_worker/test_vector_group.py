"""A vector whose members step as arrays: what is in memory is what it is where they step one by one."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sample_profiler.components.rollout_worker.stepping_group import SteppingGroup
from sample_profiler.components.rollout_worker.vector_group import VectorGroup, make_stepping_group
from sample_profiler.errors import EnvContractError
from tests.components.rollout_worker.vector_drivers import ACTION_SPACES, ROLLOUT, Driver, received_actions
from tests.doubles.counting_vectors import SPEAKS, BrokenVector, CountingVector, NumberFlags, VectorOnDevice
from tests.envs.vectors.test_vector_agents import Counting

MODES = list(AutoresetMode)


@pytest.mark.parametrize("value_bootstrap", [True, False])
@pytest.mark.parametrize("bad_at", [(), (3, 6, 10)], ids=["good", "bad"])
@pytest.mark.parametrize("tells_final", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("speaks", SPEAKS)
def test_the_memory_is_the_same_as_where_members_step_one_by_one(speaks, mode, tells_final, bad_at, value_bootstrap):
    options = {"mode": mode, "tells_final": tells_final, "bad_at": bad_at}
    lists = Driver(CountingVector(**options), SteppingGroup, value_bootstrap=value_bootstrap)
    arrays = Driver(CountingVector(speaks=speaks, **options), value_bootstrap=value_bootstrap)
    for _ in range(7):
        lists.do_rollouts(1), arrays.do_rollouts(1)
        assert arrays.told() == lists.told()
        assert (arrays.memory.memory == lists.memory.memory).all()
    assert len(arrays.group.episodes) > 20


@pytest.mark.parametrize("mode", MODES)
def test_vectors_of_gymnasium_do_so_too(mode):
    def make():
        members = [(0, 2, 0), (1, 3, 1), (2, 50, 0)]
        return SyncVectorEnv([lambda member=member: Counting(*member) for member in members], autoreset_mode=mode)

    lists, arrays = Driver(make(), SteppingGroup).do_rollouts(6), Driver(make()).do_rollouts(6)
    assert arrays.told() == lists.told()
    assert arrays.group.episodes[1].extra == {"true_objective": 10.0, "steps": 3.0}
    assert (arrays.memory.memory == lists.memory.memory).all()


def test_an_episode_ends_and_the_next_begins_where_it_should():
    driver = Driver(CountingVector((2, 3), AutoresetMode.SAME_STEP)).do_rollouts(2)
    places, memory = driver.memory.observations["place"].astype(int), driver.memory
    assert places[0, :, 1:].tolist() == [[1, 0], [1, 1], [2, 0], [2, 1], [2, 2]], "the last one is final"
    assert places[2, :, 1:].tolist() == [[3, 0], [3, 1], [4, 0], [4, 1], [4, 2]]
    assert places[1, :, 1:].tolist() == [[1, 0], [1, 1], [1, 2], [2, 0], [2, 1]]
    assert memory.terminated[0].tolist() == [False, True, False, True]
    assert memory.truncated[1].tolist() == [False, False, True, False]
    assert memory.final_values[1].tolist() == [0, 0, memory.final_values[1, 2], 0]
    assert memory.starts_episode[:2].tolist() == [[False, False, True, False], [False, False, False, True]]
    assert not memory.states[1, 3].any()
    assert [episode.length_frames for episode in driver.group.episodes[:3]] == [2, 3, 2]


def test_the_final_observation_of_an_episode_that_was_cut_off_waits_for_its_value():
    driver = Driver(CountingVector((9, 2), AutoresetMode.SAME_STEP))
    driver.group.begin_rollout(np.array([0, 1], np.int32))
    driver.step(), driver.step()
    assert driver.memory.final_step.tolist() == [0, 2]
    assert driver.memory.final_observations["place"][1].tolist() == [1, 1, 2]
    driver.group.reset(0)
    assert not driver.memory.final_step.any()


@pytest.mark.parametrize("slots", [[4, 5, 6, 7, 8], [8, 3, 5, 4, 1]], ids=["neighbours", "scattered"])
def test_slots_may_be_neighbours_or_not(slots):
    driver = Driver(CountingVector())
    for _ in range(2):
        driver.group.begin_rollout(np.array(slots, np.int32))
        for _ in range(ROLLOUT):
            driver.step()
    assert driver.memory.observations["place"][slots, :, 0].astype(int).tolist() == [[m] * 5 for m in range(5)]
    assert driver.memory.observations["place"][slots[4], :, 2].tolist() == [4, 5, 6, 7, 8]


@pytest.mark.parametrize("speaks", SPEAKS)
def test_nothing_is_copied_at_the_border(speaks):
    """Observations are looked at where the vector has them; of actions, what was drawn and clipped is what it gets."""
    vector = CountingVector(speaks=speaks)
    env = Driver(vector).env
    observations, _ = env.reset_arrays()
    step = env.step_arrays(np.full((5, 2), 3, np.float32))
    returned = {"place": step.observations["place"], "odd": step.observations["odd"], "rewards": step.rewards}
    returned |= {"terminated": step.terminated, "truncated": step.truncated, "final_place": step.final_batch()["place"]}
    for key, array in returned.items():
        assert array.__array_interface__["data"] == vector.memory[key].__array_interface__["data"], key
    assert observations["place"] is not vector.memory["place"] or speaks == "numpy"
    assert isinstance(vector.actions[-1], torch.Tensor if speaks == "torch" else np.ndarray)


def test_actions_that_are_tensors_are_those_that_were_clipped(monkeypatch):
    vector, clipped = CountingVector(speaks="torch"), []
    env = Driver(vector).env
    to_actions = env._to_actions
    monkeypatch.setattr(env, "_to_actions", lambda actions: clipped.append(to_actions(actions)) or clipped[-1])
    env.step_arrays(np.full((5, 2), 3, np.float32))
    (action,) = vector.actions
    assert action.data_ptr() == clipped[0].__array_interface__["data"][0]
    assert action.is_contiguous()
    assert (action == 1).all()


def test_members_of_several_policies_step_one_by_one():
    assert type(Driver(CountingVector(), make_stepping_group).group) is VectorGroup
    driver = Driver(CountingVector(), make_stepping_group, num_policies=2)
    assert type(driver.group) is SteppingGroup
    driver.do_rollouts(2)


def test_a_group_goes_on_from_its_course():
    driver = Driver(CountingVector(mode=AutoresetMode.NEXT_STEP)).do_rollouts(2)
    course = driver.group.course()
    driver.do_rollouts(1)
    again = Driver(CountingVector(mode=AutoresetMode.NEXT_STEP)).do_rollouts(2)
    again.group.follow(course)
    again.do_rollouts(1)
    assert again.told() == driver.told()
    assert (again.memory.memory == driver.memory.memory).all()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"place": np.zeros((5, 2), np.float32)}, r"returned observation 'place' of shape \(2,\)"),
        ({"place": np.zeros((1, 3), np.float32)}, "entries of unequal length; .* its 5 members"),
        ({"rewards": np.zeros(1, np.float32)}, "returned reward .* one entry for each of 5 agents"),
        ({"terminated": np.full(5, 0.5, np.float32)}, "returned terminated .* it is True or False"),
        ({"odd": np.full(5, 2)}, "returned observation 'odd' 2; observation_space says 0 to 1"),
    ],
)
@pytest.mark.parametrize("at", [1, 9])
def test_what_is_not_of_the_contract_is_named_early_and_late(change, problem, at):
    driver = Driver(BrokenVector(change, at))
    with pytest.raises(EnvContractError, match=problem):
        driver.do_rollouts(3)


def test_flags_may_be_numbers():
    plain, numbers = Driver(CountingVector()).do_rollouts(3), Driver(NumberFlags()).do_rollouts(3)
    assert (plain.memory.memory == numbers.memory.memory).all()


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
def test_actions_of_all_members_are_what_each_gets_alone(space):
    one_by_one, at_once = received_actions(space, partial(Driver, kind=SteppingGroup)), received_actions(space, Driver)
    for alone, together in zip(one_by_one, at_once, strict=True):
        assert alone.dtype == together.dtype
        np.testing.assert_array_equal(alone, together)


def test_agents_that_come_as_lists_step_as_arrays_too():
    """A simulator may return a list of observations, and a list of infos that say who is active."""

    class Listed(CountingVector):
        def __init__(self):
            super().__init__()
            self.metadata = {}

        def reset(self, **keywords):
            observations, _ = super().reset(**keywords)
            return self._one_by_one(observations), [{} for _ in range(5)]

        def step(self, actions):
            observations, rewards, terminated, truncated, _ = super().step(actions)
            infos = [{"is_active": bool(self.num_steps % 3) or member > 0 or terminated[0]} for member in range(5)]
            return self._one_by_one(observations), rewards, terminated, truncated, infos

        def _one_by_one(self, observations):
            return [{key: value[member].copy() for key, value in observations.items()} for member in range(5)]

    lists, arrays = Driver(Listed(), SteppingGroup).do_rollouts(5), Driver(Listed()).do_rollouts(5)
    assert arrays.told() == lists.told()
    assert (arrays.memory.memory == lists.memory.memory).all()
    assert any(arrays.memory.inactive[0])


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no device")
def test_a_tensor_on_a_device_comes_to_the_host():
    there, here = Driver(VectorOnDevice()).do_rollouts(3), Driver(CountingVector()).do_rollouts(3)
    assert (there.memory.memory == here.memory.memory).all()


def test_several_blocks_are_used_one_after_another():
    driver = Driver(CountingVector())
    assert driver.plan.block_size == 5
    firsts = [driver.do_rollouts(1).group._where.start for _ in range(3)]
    assert firsts == list(itertools.accumulate([0, 5, 5]))
