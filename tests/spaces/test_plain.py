"""Spaces that any process can read."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.spaces import plain_space


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


def test_a_plain_dictionary_keeps_its_order_in_which_masks_and_actions_come():
    pairs = [("move", spaces.Discrete(3)), ("jump", spaces.Discrete(2))]
    assert list(plain_space(spaces.Dict(pairs)).spaces) == ["move", "jump"]
