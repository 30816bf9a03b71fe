"""Action masks among observations."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.errors import ConfigError
from sample_profiler.spaces import as_dict_space, split_action_mask

BOX = spaces.Box(-1, 1, (2,), np.float32)
ACTIONS = spaces.Dict({"go": spaces.Discrete(3), "turn": BOX, "keys": spaces.MultiBinary(2)})


def with_mask(mask):
    return as_dict_space(spaces.Dict({"seen": BOX, "action_mask": mask}))


@pytest.mark.parametrize("mask", [spaces.Box(0, 1, (7,), np.int8), spaces.MultiBinary(7)])
def test_a_mask_is_as_wide_as_all_discrete_parts_have_values(mask):
    assert split_action_mask(with_mask(mask), ACTIONS) == ({"seen": BOX}, 7)
    assert split_action_mask(spaces.Dict({"seen": BOX}), ACTIONS) == ({"seen": BOX}, 0)


@pytest.mark.parametrize("mask", [spaces.MultiBinary(3), spaces.MultiBinary((7, 1)), spaces.Discrete(7)])
def test_another_width_is_refused(mask):
    with pytest.raises(ConfigError, match="7 in all: give the observation another name if it is no mask"):
        split_action_mask(with_mask(mask), ACTIONS)


@pytest.mark.parametrize(
    "mask", [spaces.Tuple([spaces.MultiBinary(3), spaces.MultiBinary(4)]), spaces.Dict({"go": spaces.MultiBinary(3)})]
)
def test_a_mask_in_pieces_is_refused_instead_of_seen(mask):
    with pytest.raises(ConfigError, match=r"a mask is one vector .* join them in a wrapper"):
        split_action_mask(with_mask(mask), ACTIONS)
