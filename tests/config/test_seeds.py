"""The seeds of a run."""

from __future__ import annotations

from sample_profiler.config.seeds import derive_seed, draw_seed


def test_drawn_seeds_differ_and_can_be_given_as_a_flag():
    seeds = {draw_seed() for _ in range(20)}
    assert len(seeds) > 15
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_derived_seeds_are_the_same_again_and_independent_of_each_other():
    paths = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), *((2, number) for number in range(500))]
    seeds = [derive_seed(7, *path) for path in paths]
    assert seeds == [derive_seed(7, *path) for path in paths]
    assert len(set(seeds)) == len(seeds)
    assert not set(seeds) & {derive_seed(8, *path) for path in paths}
    assert all(0 <= seed < 2**31 for seed in seeds)
