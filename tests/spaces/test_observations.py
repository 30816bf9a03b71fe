"""Observations as flat dictionaries, and their values."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.spaces import (
    as_dict_space,
    encoded_shape,
    flatten_observation,
    is_in_range,
    is_nested,
    num_entries,
    value_range,
)

BOX = spaces.Box(0, 1, (2,))
BITS = spaces.MultiBinary(3)
NESTED = spaces.Dict(
    {"a": spaces.Tuple([BOX, spaces.Dict({"b": BITS, "c": spaces.Tuple([spaces.Discrete(2)])})]), "d": BOX}
)


def test_what_is_no_dictionary_has_a_name_and_a_flat_one_stays_as_it_is():
    assert as_dict_space(BOX) == spaces.Dict({"obs": BOX})
    whole = spaces.Dict({"a": BOX})
    assert as_dict_space(whole) is whole


@pytest.mark.parametrize(
    ("space", "flat"),
    [
        (spaces.Tuple([BOX, BITS]), {"0": BOX, "1": BITS}),
        (spaces.Tuple([spaces.Tuple([BOX]), BITS]), {"0/0": BOX, "1": BITS}),
        (spaces.Dict({"a": spaces.Dict({"b": BOX, "c": BITS})}), {"a/b": BOX, "a/c": BITS}),
        (NESTED, {"a/0": BOX, "a/1/b": BITS, "a/1/c/0": spaces.Discrete(2), "d": BOX}),
    ],
    ids=["Tuple", "Tuple of Tuples", "Dict of Dicts", "mixed"],
)
@pytest.mark.parametrize("kind", [tuple, list])
def test_entries_of_nested_spaces_and_observations_have_the_same_names(space, flat, kind):
    assert is_nested(space)
    assert as_dict_space(space) == spaces.Dict(flat)
    assert num_entries(space) == len(flat)
    found = flatten_observation(_rebuilt(space.sample(), kind), flat)
    assert spaces.Dict(flat).contains(found), found


def _rebuilt(observation, kind):
    """Return an observation whose tuples are of a kind."""
    if isinstance(observation, dict):
        return {key: _rebuilt(entry, kind) for key, entry in observation.items()}
    return kind(_rebuilt(entry, kind) for entry in observation) if isinstance(observation, tuple) else observation


def test_lists_are_values_where_the_space_has_no_entries_below():
    assert flatten_observation({"a": [1, 2], "b": ([3], 4)}, ["a", "b/0", "b/1"]) == {"a": [1, 2], "b/0": [3], "b/1": 4}
    assert flatten_observation([1, 2], ["obs"]) == {"obs": [1, 2]}


def test_two_entries_of_one_name_are_counted():
    space = spaces.Dict({"a/b": BOX, "a": spaces.Dict({"b": BOX})})
    assert (num_entries(space), len(as_dict_space(space))) == (2, 1)


@pytest.mark.parametrize(
    ("space", "shape"),
    [
        (spaces.Discrete(4, start=2), (4,)),
        (spaces.MultiDiscrete([[2, 3], [4, 5]]), (14,)),
        (spaces.MultiBinary((2, 3)), (2, 3)),
        (spaces.Box(0, 1, ()), ()),
    ],
)
def test_shapes_that_encoders_get(space, shape):
    assert encoded_shape(space) == shape


@pytest.mark.parametrize(
    ("space", "inside", "outside"),
    [
        (spaces.Discrete(3, start=2), [2, np.int64(4), np.array(3), np.array([2])], [1, 5, np.array(9)]),
        (
            spaces.MultiDiscrete([2, 3], start=[1, -1]),
            [np.array([1, -1]), np.array([2, 1], np.int8)],
            [np.array([0, 0]), np.array([1, 2]), np.array([3, 0])],
        ),
    ],
    ids=["Discrete", "MultiDiscrete"],
)
def test_values_that_networks_can_take(space, inside, outside):
    bounds = value_range(space)
    assert [is_in_range(value, *bounds) for value in inside] == [True] * len(inside)
    assert [is_in_range(value, *bounds) for value in outside] == [False] * len(outside)
    assert value_range(spaces.Box(0, 1)) is None
