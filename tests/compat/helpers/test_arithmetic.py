import numpy as np
import pytest

from sample_profiler.compat.helpers.arithmetic import (
    LinearDecay,
    max_with_idx,
    min_with_idx,
    numpy_all_the_way,
    numpy_flatten,
    scale_to_range,
)


def test_a_number_goes_from_milestone_to_milestone():
    decay = LinearDecay([(1000, 50), (0, 100)])
    assert [decay.at(step) for step in (-1, 0, 500, 1000, 9999)] == [100, 100, 75, 50, 50]
    stairs = LinearDecay([(0, 0), (100, 100)], staircase=25)
    assert [stairs.at(step) for step in (0, 10, 30, 99, 100)] == [0, 0, 25, 75, 100]
    falling = LinearDecay([(0, 100), (1000, 50)], staircase=10)
    assert [falling.at(step) for step in (0, 100, 500, 999, 1000)] == [100, 90, 70, 50, 50]
    with pytest.raises(ValueError, match="there are none"):
        LinearDecay([])


def test_numbers_and_arrays():
    assert scale_to_range(np.array([2.0, 3.0, 4.0]), -1, 1).tolist() == [-1, 0, 1]
    assert (min_with_idx([3, 1, 1]), max_with_idx([3, 1, 3])) == ((1, 1), (3, 0))
    arrays = [np.zeros((2, 3)), np.ones((2, 3))]
    assert numpy_all_the_way(arrays).shape == (2, 2, 3)
    assert numpy_flatten(arrays).shape == (4, 3)
