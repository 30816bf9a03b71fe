"""Which pixel goes where."""

from __future__ import annotations

import numpy as np
import pytest

from sample_profiler.envs.images.resize import NearestResize


def test_halving_takes_every_second_pixel():
    image = np.arange(2 * 4 * 6, dtype=np.uint8).reshape(2, 4, 6)
    resized = NearestResize((2, 4, 6), 2, 3)(image)
    # The centre of a 2x2 block is the corner of its last pixel.
    np.testing.assert_array_equal(resized, image[:, 1::2, 1::2])


def test_doubling_repeats_pixels():
    image = np.array([[[1, 2], [3, 4]]], np.uint8)
    np.testing.assert_array_equal(NearestResize((1, 2, 2), 4, 4)(image), image.repeat(2, axis=1).repeat(2, axis=2))


def test_uneven_ratio_takes_the_pixel_that_holds_the_centre():
    # Five pixels to three: centres at 5/6, 15/6 and 25/6 lie in pixels 0, 2 and 4.
    image = np.array([[[10, 11, 12, 13, 14]]], np.uint8)
    assert NearestResize((1, 1, 5), 1, 3)(image).tolist() == [[[10, 12, 14]]]


@pytest.mark.parametrize("size", [(72, 128), (120, 160), (84, 84), (240, 320)])
def test_result_is_a_new_contiguous_array_of_the_same_type(size):
    image = np.random.default_rng(0).integers(0, 256, (3, 120, 160), np.uint8)
    resized = NearestResize(image.shape, *size)(image)
    assert resized.shape == (3, *size)
    assert resized.dtype == np.uint8
    assert resized.flags.c_contiguous
    assert not np.shares_memory(resized, image)


def test_non_contiguous_image():
    image = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8).transpose(2, 0, 1)
    np.testing.assert_array_equal(NearestResize((3, 6, 8), 3, 4)(image), image[:, 1::2, 1::2])
