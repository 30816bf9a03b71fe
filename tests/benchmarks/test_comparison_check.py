"""Comparisons are drawn from recorded runs as the command makes them."""

from __future__ import annotations

import random

from benchmarks.comparison_check import both_settings, count, same_setting


def test_neighbours_are_pairs_and_every_second_one_is_turned_round():
    (only,) = same_setting(range(1, 17))
    assert only == [(1, 2), (4, 3), (5, 6), (8, 7), (9, 10), (12, 11), (13, 14), (16, 15)]
    assert len(same_setting(range(1, 31))) == 15


def test_an_interrupted_recording_is_compared_as_far_as_it_goes():
    assert len(both_settings(range(1, 17), range(1, 16))) == 8


def test_what_differs_is_found_and_what_does_not_is_not():
    rng = random.Random(3)
    plain = [1000 * rng.uniform(0.97, 1.03) for _ in range(30)]
    slow = [900 * rng.uniform(0.97, 1.03) for _ in range(30)]
    assert count(both_settings(plain, slow), rng)["lower"] == 40
    same = count(same_setting(plain), rng)
    assert same["lower"] + same["higher"] <= 4


def test_a_machine_that_slows_down_favours_nobody():
    runs = [1000 * 0.99**number for number in range(30)]
    same = count(same_setting(runs), random.Random(3))
    assert same["lower"] + same["higher"] == 0
