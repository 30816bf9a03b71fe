"""Sealed data: what comes back is what went in, and nothing else goes in."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from sample_profiler.run.resume_state import _set_numpy_state
from sample_profiler.storage.sealing import _unpack, open_sealed, seal


class Pair(NamedTuple):
    """Would come back as a plain tuple."""

    one: int
    other: int


def typed(value: Any) -> Any:
    """Return a value together with the types of all that is in it."""
    if isinstance(value, dict):
        return [(typed(key), typed(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [typed(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return type(value), value.dtype.str, value.shape, value.tolist()
    return type(value), value


@pytest.mark.parametrize(
    "state",
    [
        *({"array": 1}, {"dict": 1}, {"array": {"dict": []}, "dict": {"array": np.zeros(3)}}, {}),
        {np.int64(3): 1, np.str_("a"): 2, None: 3, 1.5: 4, True: 5, ("x", (np.int8(1), 2)): 6},
        [(1, [2.5]), np.float32(0.5), np.arange(6).reshape(2, 3), np.zeros((0, 4), "u1"), np.array(7), np.str_("")],
    ],
    ids=repr,
)
def test_what_comes_back_is_what_went_in(state):
    course = open_sealed(seal({"state": state}))
    assert course is not None
    assert typed(course["state"]) == typed(state)


def test_what_has_another_checksum_is_not_taken_although_it_can_be_read():
    sealed, other = seal({"step": 1}), seal({"step": 2})
    assert open_sealed(sealed) == {"step": 1}
    assert open_sealed(sealed | {"data": other["data"]}) is None


@pytest.mark.parametrize(
    "state",
    [
        *(Pair(1, 2), OrderedDict(a=1), type("Items", (list,), {})(), np.ma.masked_array([1.0]), object(), {1, 2}),
        *({Pair(1, 2): 1}, {frozenset(): 1}, {b"x": 1}, np.datetime64(0, "s")),
    ],
    ids=lambda state: f"a {type(state).__name__}",
)
def test_what_would_come_back_as_something_else_is_refused(state):
    with pytest.raises(TypeError, match="in it, which is neither a number, text"):
        seal({"state": [state]})


@pytest.mark.parametrize("dtype", ["O", "V8", "M8[s]"])
def test_bytes_that_somebody_made_up_are_never_taken_for_pointers(dtype):
    made_up = {"array": torch.full((8,), 65, dtype=torch.uint8), "dtype": dtype, "shape": (1,), "is_scalar": False}
    with pytest.raises(ValueError, match="an array of"):
        _unpack(made_up)


@pytest.mark.parametrize("position", [-1, 625, 10**6])
def test_random_numbers_are_never_read_from_behind_the_key(position):
    before = np.random.get_state(legacy=False)
    made_up = {**before, "state": {**before["state"], "pos": position}}
    with pytest.raises(ValueError, match="is no position"):
        _set_numpy_state(made_up)
    assert np.random.get_state(legacy=False)["state"]["pos"] == before["state"]["pos"]
    _set_numpy_state(before)
