"""The layout of trajectories: shapes, types, no overlap, the same memory elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.config import SamplingOptions
from sample_profiler.envs import EnvSpec
from sample_profiler.spaces import AgentSpaces
from sample_profiler.storage.sampling_plan import make_sampling_plan
from sample_profiler.storage.trajectories import Trajectories, TrajectoryLayout, address_of

OBSERVATIONS = spaces.Dict(
    {
        "image": spaces.Box(0, 255, (3, 4, 5), np.uint8),
        "measurements": spaces.Box(-1, 1, (2,), np.float32),
        "number": spaces.Discrete(7),
        "states": spaces.Box(-1, 1, (9,), np.float32),  # also the name of an array of recurrent states
    }
)


BOX = spaces.Box(-1, 1, (2,), np.float32)


def make_trajectories(action_space, num_agents=2, state_size=6) -> Trajectories:
    options = SamplingOptions(num_workers=2, num_envs_per_worker=3, rollout=4, recurrence=1, batch_size=8)
    plan = make_sampling_plan(options, num_agents)
    spec = EnvSpec(observation_space=OBSERVATIONS, action_space=action_space, num_agents=num_agents)
    return Trajectories(TrajectoryLayout.of(plan, spec, state_size))


@pytest.fixture
def trajectories():
    return make_trajectories(spaces.Discrete(5))


def all_arrays(trajectories: Trajectories) -> dict[str, np.ndarray]:
    arrays = {name: array for name, array in vars(trajectories).items() if isinstance(array, np.ndarray)}
    for name in ("observations", "final_observations"):
        arrays |= {f"{name} {key}": array for key, array in getattr(trajectories, name).items()}
    return arrays


def test_shapes_and_types_follow_from_the_spaces(trajectories):
    slots, rows, groups, steps = trajectories.layout.num_slots, 12, 4, 4
    expected = {
        "observations image": ((slots, steps + 1, 3, 4, 5), np.uint8),
        "observations measurements": ((slots, steps + 1, 2), np.float32),
        "observations number": ((slots, steps + 1), np.int64),
        "observations states": ((slots, steps + 1, 9), np.float32),
        "final_observations image": ((rows, 3, 4, 5), np.uint8),
        "final_observations measurements": ((rows, 2), np.float32),
        "final_observations number": ((rows,), np.int64),
        "final_observations states": ((rows, 9), np.float32),
        "states": ((slots, steps + 1, 6), np.float32),
        "final_states": ((rows, 6), np.float32),
        "actions": ((slots, steps, 1), np.int64),
        "action_parameters": ((slots, steps, 5), np.float32),
        "log_probabilities": ((slots, steps), np.float32),
        "values": ((slots, steps), np.float32),
        "rewards": ((slots, steps), np.float32),
        "terminated": ((slots, steps), np.bool_),
        "truncated": ((slots, steps), np.bool_),
        "inactive": ((slots, steps), np.bool_),
        "spoiled": ((slots, steps), np.bool_),
        "starts_episode": ((slots, steps), np.bool_),
        "final_values": ((slots, steps), np.float32),
        "policy_versions": ((slots, steps), np.int64),
        "row_slot": ((rows,), np.int32),
        "final_step": ((rows,), np.int32),
        "group_step": ((groups,), np.int32),
    }
    assert {name: (array.shape, array.dtype) for name, array in all_arrays(trajectories).items()} == expected


def test_continuous_actions_have_a_mean_and_a_deviation_each():
    trajectories = make_trajectories(spaces.Box(-1, 1, (3,), np.float32))
    assert trajectories.actions.shape[2] == 3
    assert trajectories.actions.dtype == np.float32
    assert trajectories.action_parameters.shape[2] == 6


def test_nothing_overlaps_and_everything_begins_zeroed(trajectories):
    arrays = all_arrays(trajectories)
    assert not any(array.any() for array in arrays.values())
    for number, array in enumerate(arrays.values(), start=1):
        array[...] = number
    for number, (name, array) in enumerate(arrays.items(), start=1):
        assert (array == array.dtype.type(number)).all(), name
    assert trajectories.num_bytes >= sum(array.nbytes for array in arrays.values())


def test_what_is_unpickled_has_the_same_layout_and_memory(trajectories):
    """Only a spawned process can get the memory's descriptor; the state that travels is the same."""
    other = Trajectories.__new__(Trajectories)
    other.__setstate__(trajectories.__getstate__())
    assert other.layout == trajectories.layout
    trajectories.rewards[3, 2] = 1.5
    trajectories.observations["image"][1, 4, 2] = 9
    for name, array in all_arrays(trajectories).items():
        assert np.shares_memory(array, all_arrays(other)[name]), name
    assert other.rewards[3, 2] == 1.5


@pytest.mark.parametrize(
    ("slots", "expected"),
    [([4], slice(4, 5)), ([4, 5, 6], slice(4, 7)), ([4, 6], None), ([5, 4], None), ([1, 3, 2, 4], None)],
)
def test_neighbours_are_addressed_in_one_piece(slots, expected):
    array = np.array(slots, np.int32)
    assert address_of(array) is array if expected is None else address_of(array) == expected


def test_agents_with_spaces_of_their_own_have_observations_and_actions_of_their_own_and_share_all_else():
    options = SamplingOptions(
        num_workers=1, num_envs_per_worker=2, rollout=4, recurrence=1, batch_size=8, num_policies=2
    )
    own = AgentSpaces(OBSERVATIONS, spaces.Discrete(5)), AgentSpaces(spaces.Dict(obs=spaces.Discrete(2)), BOX)
    spec = EnvSpec(observation_space=OBSERVATIONS, action_space=spaces.Discrete(5), num_agents=2, own_spaces=own)
    plan = make_sampling_plan(options, 2, kinds=spec.kinds)
    first, *others = TrajectoryLayout.of_kinds(plan, spec, state_size=3)
    whole = Trajectories(first, others, (0, 1))
    views = whole.of_policy(0), whole.of_policy(1)
    assert [sorted(view.observations) for view in views] == [sorted(OBSERVATIONS), ["obs"]]
    assert [(view.actions.shape[2], view.actions.dtype) for view in views] == [(1, np.int64), (2, np.float32)]
    assert [view.action_parameters.shape[2] for view in views] == [5, 4]
    for name, array in all_arrays(views[1]).items():
        array[:] = 1
        is_own = " obs" in name or name in ("actions", "action_parameters")
        assert is_own or all_arrays(views[0])[name].all(), name
    assert not views[0].actions.any() and not any(array.any() for array in views[0].observations.values())
    assert whole.of_policy(0).states.all()


@pytest.mark.parametrize("slots", [[3, 4, 5], [7, 0, 2]], ids=["neighbours", "others"])
def test_slots_are_copied_to_another_memory_and_nothing_else_is(trajectories, slots):
    rng = np.random.default_rng(3)
    source = make_trajectories(spaces.Discrete(5))
    source.memory[:] = rng.integers(0, 2, source.memory.shape)
    before = {name: array.copy() for name, array in all_arrays(trajectories).items()}
    contents = source.copy_out([1, 6, 2])
    expected = {name: array[[1, 6, 2]].copy() for name, array in all_arrays(source).items() if len(array) > 12}
    source.memory[:] = 0
    trajectories.copy_in(slots, contents)
    assert len(expected) == len(contents)
    for name, array in all_arrays(trajectories).items():
        if name in expected:
            assert np.array_equal(array[slots], expected[name]), name
            before[name][slots] = expected[name]
        assert np.array_equal(array, before[name]), name
