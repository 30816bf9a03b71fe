"""Sizes and types of actions, and how their numbers become what an environment takes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.errors import EnvContractError
from sample_profiler.spaces import (
    action_converter,
    action_dtype,
    action_parts,
    action_width,
    as_dict_space,
    draw_action,
    flatten_action,
    is_discrete,
    num_action_parameters,
    plain_space,
)

BOX = spaces.Box(-1.0, 1.0, (2, 3), np.float32)
NESTED = spaces.Tuple(
    [spaces.Discrete(3, start=5), spaces.Tuple([spaces.MultiDiscrete([2, 4], start=[0, 7]), BOX]), spaces.Discrete(2)]
)


@pytest.mark.parametrize(
    ("space", "width", "num_parameters", "dtype"),
    [
        (spaces.Discrete(9), 1, 9, np.int64),
        (spaces.Discrete(3, start=-1), 1, 3, np.int64),
        (spaces.MultiDiscrete([3, 3, 2]), 3, 8, np.int64),
        (spaces.MultiDiscrete([[3, 3], [2, 5]]), 4, 13, np.int64),
        (spaces.Box(-1.0, 1.0, (8,), np.float32), 8, 16, np.float32),
        (spaces.Box(-1.0, 1.0, (2, 3), np.float64), 6, 12, np.float32),
        (spaces.Tuple([spaces.Discrete(4), spaces.MultiDiscrete([2, 3])]), 3, 9, np.int64),
        (spaces.Tuple([spaces.Discrete(4), BOX]), 7, 16, np.float32),
        (NESTED, 1 + 2 + 6 + 1, 3 + 6 + 12 + 2, np.float32),
    ],
)
def test_sizes_of_actions(space, width, num_parameters, dtype):
    assert action_width(space) == width
    assert num_action_parameters(space) == num_parameters
    assert action_dtype(space) == np.dtype(dtype)
    assert is_discrete(space) == (dtype is np.int64)


@pytest.mark.parametrize("function", [action_parts, action_width, num_action_parameters, action_dtype])
@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiBinary(3),
        spaces.Box(0, 255, (3,), np.uint8),
        spaces.Tuple([]),
        spaces.Tuple([spaces.Discrete(2), spaces.Dict({"a": spaces.Discrete(2)})]),
    ],
    ids=str,
)
def test_unsupported_action_space(function, space):
    with pytest.raises(EnvContractError, match="allowed are Discrete, MultiDiscrete, Box of floats and a Tuple"):
        function(space)


@pytest.mark.parametrize(
    "space",
    [spaces.Discrete(3, start=-1), spaces.MultiDiscrete([3, 4], start=[2, 0]), BOX, NESTED],
    ids=["Discrete", "MultiDiscrete", "Box", "nested Tuple"],
)
def test_environments_get_actions_of_their_space_and_the_numbers_of_an_action_are_its_own(space):
    space.seed(3)
    convert = action_converter(space)
    for _ in range(20):
        action = space.sample()
        numbers = flatten_action(space, action)
        assert numbers.shape == (action_width(space),)
        again = convert(numbers.astype(action_dtype(space)))
        assert space.contains(again), again
        assert (flatten_action(space, again) == numbers).all()


def test_discrete_numbers_count_from_zero_whatever_the_space_begins_with():
    assert flatten_action(NESTED, (5, (np.array([1, 7]), np.zeros((2, 3))), 0)).tolist() == [0, 1, 0] + [0] * 7
    first, (pair, box), last = action_converter(NESTED)(np.array([2, 1, 3, 9, -9, 0, 0, 0, 0.5, 1], np.float32))
    assert (first, pair.tolist(), last) == (7, [1, 10], 1)
    assert isinstance(first, int)
    assert box.tolist() == [[1, -1, 0], [0, 0, 0.5]], "clipped to the bounds"


def test_as_dict_space():
    box = spaces.Box(0, 1, (2,))
    assert as_dict_space(box) == spaces.Dict({"obs": box})
    whole = spaces.Dict({"a": box})
    assert as_dict_space(whole) is whole


def test_random_actions_keep_to_their_mask():
    NESTED.seed(0)
    mask = np.array([*(0, 1, 1), *(1, 0), *(0, 0, 0, 1), *(1, 1)], np.int8)
    drawn = np.array([draw_action(NESTED, mask) for _ in range(200)])
    assert set(drawn[:, 0]) == {1, 2}
    assert set(drawn[:, 1]) == {0}
    assert set(drawn[:, 2]) == {3}
    assert set(drawn[:, -1]) == {0, 1}
    assert np.ptp(drawn[:, 3:9]) > 1, "the Box has no mask"
    assert {draw_action(NESTED, None)[0] for _ in range(100)} == {0, 1, 2}


class Padded(spaces.Box):
    """A space of an environment's own, which no other process can import."""

    def __init__(self):
        super().__init__(-1.5, 2.5, (3, 2), np.float64)
        self.padding = lambda: 0


@pytest.mark.parametrize(
    ("space", "plain"),
    [
        (Padded(), spaces.Box(-1.5, 2.5, (3, 2), np.float64)),
        (spaces.Box(np.array([0, 3], np.uint8), np.array([9, 200], np.uint8)),) * 2,
        (spaces.Discrete(5, start=-2),) * 2,
        (spaces.MultiBinary((2, 3)),) * 2,
        (spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 1], [0, 0]]),) * 2,
        (
            spaces.Dict({"b": Padded(), "a": spaces.Dict({"c": spaces.Discrete(2)})}),
            spaces.Dict({"b": spaces.Box(-1.5, 2.5, (3, 2), np.float64), "a": spaces.Dict({"c": spaces.Discrete(2)})}),
        ),
        (
            spaces.Tuple((Padded(), spaces.Discrete(3))),
            spaces.Tuple((spaces.Box(-1.5, 2.5, (3, 2), np.float64), spaces.Discrete(3))),
        ),
    ],
    ids=lambda space: type(space).__name__,
)
def test_a_plain_space_is_the_same_and_any_process_can_read_it(space, plain):
    space.seed(3)
    space.sample()
    found = pickle.loads(pickle.dumps(plain_space(space)))
    assert found == plain
    assert type(found) is type(plain)
    assert repr(found) == repr(plain)
    found.seed(5)
    assert plain.contains(found.sample())


def test_a_plain_space_changes_with_nothing_of_the_environment():
    space = spaces.Box(-1, 1, (2,), np.float32)
    found = plain_space(space)
    space.low[:] = -7
    assert found.low.tolist() == [-1, -1]
