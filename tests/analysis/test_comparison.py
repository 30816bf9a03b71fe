"""Paired comparisons: the test by hand, how often it errs, and how often it finds what is there."""

from __future__ import annotations

import math
import random

import pytest

from sample_profiler.analysis.comparison import compare_pairs, holm, sign_flip_p_value


def test_the_p_value_is_the_share_of_sign_patterns_that_are_as_extreme():
    assert sign_flip_p_value([0.1, 0.2, 0.3]) == 2 / 8
    assert sign_flip_p_value([0.1, -0.1]) == 1.0
    assert sign_flip_p_value([1.0, 2.0, -0.5]) == 4 / 8, "+++ and ++- on both sides"
    assert sign_flip_p_value([0.05] * 8) == 2 / 256


def test_with_many_pairs_it_is_drawn_and_nearly_the_same():
    logs = [0.02, -0.01] * 6 + [0.03, 0.01]
    exact = sign_flip_p_value(logs)
    assert sign_flip_p_value([*logs, 0.0]) == pytest.approx(exact, abs=0.02)


def test_several_tests_are_corrected_by_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def make_pairs(seed, num_pairs=8, effect=0.0, noise=0.05):
    """Pairs of a machine whose speed drifts by 20 %, with noise of each run by itself."""
    draw = random.Random(seed)
    drift = 1.0
    pairs = []
    for _ in range(num_pairs):
        drift *= math.exp(draw.gauss(0, 0.1))
        a, b = (5000 * drift * math.exp(draw.gauss(0, noise)) for _ in range(2))
        pairs.append((a, b * (1 + effect)))
    return pairs


def test_equal_settings_are_rarely_called_different():
    outcomes = [compare_pairs(make_pairs(seed)).outcome for seed in range(200)]
    assert sum(outcome in ("higher", "lower") for outcome in outcomes) <= 20


def test_a_tenth_is_found_with_eight_pairs():
    outcomes = [compare_pairs(make_pairs(seed, effect=-0.1)).outcome for seed in range(100)]
    assert outcomes.count("lower") >= 80
    assert "higher" not in outcomes


def test_equal_within_the_margin_is_an_outcome_of_its_own():
    comparison = compare_pairs([(100.0, 100.1), (100.0, 99.9)] * 4)
    assert comparison.outcome == "equivalent"
    assert comparison.num_more == 0


def test_what_cannot_be_told_says_how_many_more_pairs_would():
    comparison = compare_pairs([(100.0, 110.0), (100.0, 95.0), (100.0, 112.0)])
    assert comparison.outcome == "inconclusive"
    assert comparison.num_more >= 3, "fewer than six pairs cannot be significant"
    low, high = comparison.interval
    assert low < comparison.ratio < high


def test_one_pair_has_no_interval():
    assert compare_pairs([(100.0, 110.0)]).interval is None


@pytest.mark.parametrize("pairs", [[], [(1.0, 0.0)], [(math.nan, 1.0)]])
def test_figures_that_are_none_are_refused(pairs):
    with pytest.raises(ValueError, match=r"pairs|above 0"):
        compare_pairs(pairs)
