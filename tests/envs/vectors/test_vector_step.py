"""What a vector's infos say of its members."""

from __future__ import annotations

import numpy as np

from sample_profiler.envs.vectors.vector_step import find_inactive


def test_members_of_whom_nothing_is_told_are_active():
    infos = {"is_active": np.array([False, False, False]), "_is_active": np.array([False, True, False])}
    assert find_inactive(infos).tolist() == [False, True, False]
    assert find_inactive({"is_active": np.array([True, False])}).tolist() == [False, True]
    assert find_inactive({}) is False
