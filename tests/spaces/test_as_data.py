"""Spaces as data, and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.spaces import space_from_data, space_to_data

SPACES = [
    spaces.Discrete(5, start=-2),
    spaces.MultiBinary(3),
    spaces.MultiBinary((2, 3)),
    spaces.MultiDiscrete([[2, 3], [4, 5]], np.int32, start=[[1, 1], [0, 0]]),
    spaces.Box(0, 255, (3, 7, 7), np.uint8),
    spaces.Box(-np.inf, np.inf, (), np.float32),
    spaces.Box(np.array([0.1, -3], np.float64), np.array([0.2, np.inf], np.float64), dtype=np.float64),
    spaces.Box(-(2**62), 2**62 + 1, (1,), np.int64),
    spaces.Box(0, 1, (0, 2)),
    spaces.Dict(
        {"b": spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1)]), "a": spaces.Dict({"c": spaces.Discrete(2)})}
    ),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_space_comes_back_equal(space):
    data = space_to_data(space)
    again = space_from_data(json.loads(json.dumps(data)))
    assert again == space
    assert again.dtype == space.dtype
    assert repr(again) == repr(space)
    again.seed(1)
    assert space.contains(again.sample())


def test_bounds_that_are_all_alike_take_one_number():
    assert len(json.dumps(space_to_data(spaces.Box(0, 255, (3, 500, 500), np.uint8)))) < 200


def test_what_is_no_such_space_has_no_data():
    with pytest.raises(TypeError, match="no data for the space Text"):
        space_to_data(spaces.Text(3))


@pytest.mark.parametrize(
    "data",
    [
        *(None, [], {}, {"kind": "Text"}, {"kind": "Discrete"}, {"kind": "Discrete", "n": 0, "start": 0}),
        *({"kind": "Discrete", "n": "3", "start": 0}, {"kind": "MultiBinary", "n": -1}),
        {"kind": "MultiDiscrete", "dtype": "object", "nvec": [2], "start": [0]},
        {"kind": "Box", "dtype": "float32", "shape": [10**6, 10**6], "low": 0, "high": 1},
        {"kind": "Box", "dtype": "float32", "shape": [3], "low": [0, 1], "high": 1},
        {"kind": "Box", "dtype": "float32", "shape": [-3], "low": 0, "high": 1},
        {"kind": "Tuple", "members": [{"kind": "Dict", "entries": [["a"]]}]},
    ],
    ids=str,
)
def test_what_describes_no_space_is_said(data):
    with pytest.raises(ValueError, match="it describes no space"):
        space_from_data(data)


def test_what_is_nested_too_deeply_is_said():
    data = {"kind": "Discrete", "n": 2, "start": 0}
    for _ in range(10_000):
        data = {"kind": "Tuple", "members": [data]}
    with pytest.raises(ValueError, match="it describes no space: RecursionError"):
        space_from_data(data)
