"""Sizes and types of actions."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.envs.spaces import action_dtype, action_width, as_dict_space, num_action_parameters
from sample_profiler.errors import EnvContractError


@pytest.mark.parametrize(
    ("space", "width", "num_parameters", "dtype"),
    [
        (spaces.Discrete(9), 1, 9, np.int64),
        (spaces.Discrete(3, start=-1), 1, 3, np.int64),
        (spaces.Box(-1.0, 1.0, (8,), np.float32), 8, 16, np.float32),
        (spaces.Box(-1.0, 1.0, (2, 3), np.float64), 6, 12, np.float32),
    ],
)
def test_sizes_of_actions(space, width, num_parameters, dtype):
    assert action_width(space) == width
    assert num_action_parameters(space) == num_parameters
    assert action_dtype(space) == np.dtype(dtype)


@pytest.mark.parametrize("function", [action_width, num_action_parameters, action_dtype])
@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 2]), spaces.Box(0, 255, (3,), np.uint8)])
def test_unsupported_action_space(function, space):
    with pytest.raises(EnvContractError, match="allowed are Discrete and Box of floats"):
        function(space)


def test_as_dict_space():
    box = spaces.Box(0, 1, (2,))
    assert as_dict_space(box) == spaces.Dict({"obs": box})
    whole = spaces.Dict({"a": box})
    assert as_dict_space(whole) is whole
