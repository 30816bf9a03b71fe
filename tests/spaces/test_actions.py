"""Sizes and types of actions, and how their numbers become what an environment takes."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.errors import EnvContractError
from sample_profiler.spaces import (
    action_converter,
    action_dtype,
    action_parts,
    action_width,
    draw_action,
    flatten_action,
    is_discrete,
    num_action_parameters,
)

BOX = spaces.Box(-1.0, 1.0, (2, 3), np.float32)
NESTED = spaces.Tuple(
    [spaces.Discrete(3, start=5), spaces.Tuple([spaces.MultiDiscrete([2, 4], start=[0, 7]), BOX]), spaces.Discrete(2)]
)
NAMED = spaces.Dict(
    {
        "move": spaces.Dict({"turn": spaces.Box(-1.0, 1.0, (2,), np.float32), "step": spaces.Discrete(3, start=-1)}),
        "keys": spaces.MultiBinary((2, 2)),
        "both": spaces.Tuple([spaces.MultiDiscrete([[2, 3]], start=[[4, 5]]), spaces.MultiBinary(1)]),
    }
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
        (spaces.MultiBinary(3), 3, 6, np.int64),
        (spaces.MultiBinary((2, 4)), 8, 16, np.int64),
        (spaces.Dict({"b": spaces.Discrete(4), "a": spaces.MultiBinary(2)}), 3, 8, np.int64),
        (NAMED, 2 + 1 + 4 + 2 + 1, 4 + 3 + 8 + 5 + 2, np.float32),
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
        spaces.Box(0, 255, (3,), np.uint8),
        spaces.Text(3),
        spaces.Tuple([]),
        spaces.Dict({}),
        spaces.Tuple([spaces.Discrete(2), spaces.Dict({"a": spaces.Text(2)})]),
    ],
    ids=str,
)
def test_unsupported_action_space(function, space):
    with pytest.raises(EnvContractError, match="allowed are Discrete, MultiDiscrete, MultiBinary, Box of floats, and "):
        function(space)


@pytest.mark.parametrize(
    "space",
    [
        *(spaces.Discrete(3, start=-1), spaces.MultiDiscrete([3, 4], start=[2, 0]), BOX, NESTED),
        *(
            spaces.MultiBinary(3),
            spaces.MultiBinary((2, 3)),
            spaces.MultiDiscrete([[3], [4]], np.int8, start=[[1], [0]]),
        ),
        *(NAMED, spaces.Box(-1, 1, (2,), np.float16), spaces.Box(-1, 1, ())),
    ],
    ids=[
        *("Discrete", "MultiDiscrete", "Box", "nested Tuple", "MultiBinary", "matrix of bits", "small numbers", "Dict"),
        *("Box of half precision", "Box of no dimension"),
    ],
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
        if isinstance(space, spaces.Box):
            assert (type(again), again.dtype) == (np.ndarray, space.dtype)
        assert (flatten_action(space, again) == numbers).all()


def test_discrete_numbers_count_from_zero_whatever_the_space_begins_with():
    assert flatten_action(NESTED, (5, (np.array([1, 7]), np.zeros((2, 3))), 0)).tolist() == [0, 1, 0] + [0] * 7
    first, (pair, box), last = action_converter(NESTED)(np.array([2, 1, 3, 9, -9, 0, 0, 0, 0.5, 1], np.float32))
    assert (first, pair.tolist(), last) == (7, [1, 10], 1)
    assert isinstance(first, int)
    assert box.tolist() == [[1, -1, 0], [0, 0, 0.5]], "clipped to the bounds"


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


def test_entries_of_a_dictionary_are_found_by_their_names_and_in_the_order_of_the_space():
    numbers = np.array([1, 0, 1, 0, 2, 1, 0.5, -9, 1, 2], np.float32)
    assert list(NAMED.spaces) == ["both", "keys", "move"]
    action = action_converter(NAMED)(numbers[[4, 5, 0, 1, 2, 3, 8, 9, 6, 7]][[1, 0, 2, 3, 4, 5, 6, 8, 7, 9]])
    assert action["both"][0].tolist() == [[5, 7]]
    assert NAMED.contains(action), action


def test_each_entry_of_a_multibinary_has_a_place_of_its_own_in_a_mask():
    space = spaces.MultiBinary(3)
    space.seed(1)
    drawn = np.array([draw_action(space, np.array([1, 1, 0, 1, 1, 0], np.int8)) for _ in range(100)])
    assert set(drawn[:, 0]) == {0, 1}
    assert set(drawn[:, 1]) == {1}
    assert set(drawn[:, 2]) == {0}
