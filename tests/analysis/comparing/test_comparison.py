"""Paired comparisons: the test by hand, how often it errs, and how often it finds what is there."""

from __future__ import annotations

import math
import random

import pytest

from sample_profiler.analysis.comparing.comparison import compare_pairs, holm


def compare_logs(logs):
    """Compare pairs whose ratios have these logarithms."""
    return compare_pairs([(1.0, math.exp(each)) for each in logs])


def test_the_p_value_is_the_share_of_sign_patterns_that_are_as_extreme():
    assert compare_logs([0.1, 0.2, 0.3]).p_value == 2 / 8
    assert compare_logs([0.1, -0.1]).p_value == 1.0
    assert compare_logs([1.0, 2.0, -0.5]).p_value == 4 / 8, "+++ and ++- on both sides"
    assert compare_logs([0.05] * 8).p_value == 2 / 256
    assert compare_logs([0.0] * 8).p_value == 1.0


@pytest.mark.parametrize("num_pairs", [15, 20])
def test_it_is_exact_up_to_twenty_pairs(num_pairs):
    logs = [0.01 * (number + 1) for number in range(num_pairs)]
    assert compare_logs(logs).p_value == 2 / 2**num_pairs
    assert compare_logs([-0.01, *logs[1:]]).p_value == 4 / 2**num_pairs


def test_with_more_pairs_it_is_drawn_and_nearly_the_same():
    logs = [0.02, -0.01] * 9 + [0.01, 0.01]
    exact = compare_logs(logs).p_value
    assert 0.03 < exact < 0.3
    assert compare_logs([*logs, 0.0]).p_value == pytest.approx(exact, abs=0.02)
    assert compare_logs([*logs, 0.0]).interval == pytest.approx(compare_logs(logs).interval, 0.01)


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


@pytest.mark.parametrize("num_pairs", [6, 8, 15, 30])
def test_intervals_cover_what_is_so_as_often_as_they_say(num_pairs):
    intervals = [compare_pairs(make_pairs(seed, num_pairs, effect=0.03)).interval for seed in range(200)]
    covered = sum(low <= 1.03 <= high for low, high in intervals)
    assert covered >= 182, "190 are expected: three deviations"
    assert covered < 200


def test_an_interval_is_what_the_test_does_not_reject():
    for seed in range(50):
        comparison = compare_pairs(make_pairs(seed, effect=0.05), margin=1e-9)
        low, high = comparison.interval
        assert low <= comparison.ratio <= high
        assert (low <= 1 <= high) == (comparison.p_value >= 0.05)


def test_six_pairs_have_an_interval_from_the_lowest_to_the_highest_and_fewer_have_none():
    pairs = [(100.0, value) for value in (90.0, 95.0, 101.0, 103.0, 110.0, 120.0)]
    assert compare_pairs(pairs).interval == pytest.approx((0.9, 1.2))
    assert compare_pairs(pairs[:5]).interval is None


def test_equal_within_the_margin_is_an_outcome_of_its_own():
    comparison = compare_pairs([(100.0, 100.1), (100.0, 99.9)] * 4)
    assert comparison.outcome == "equivalent"
    assert comparison.num_more == 0


def test_a_difference_that_is_surely_within_the_margin_does_not_matter():
    pairs = [(100.0, 100.2 + 0.05 * number) for number in range(8)]
    assert compare_pairs(pairs).p_value < 0.05
    assert compare_pairs(pairs).outcome == "equivalent"
    assert compare_pairs(pairs, margin=0.001).outcome == "higher"


@pytest.mark.parametrize("num_pairs", [2, 3, 5])
def test_too_few_pairs_show_no_equivalence_however_close_they_are(num_pairs):
    comparison = compare_pairs([(100.0, 100.1), (100.0, 99.9), *[(100.0, 100.0)] * 3][:num_pairs])
    assert comparison.outcome == "inconclusive"
    assert comparison.interval is None
    assert comparison.num_more == 6 - num_pairs


def test_what_cannot_be_told_says_how_many_more_pairs_would():
    comparison = compare_pairs([(100.0, 110.0), (100.0, 95.0), (100.0, 112.0)])
    assert comparison.outcome == "inconclusive"
    assert comparison.num_more >= 3, "fewer than six pairs cannot be significant"


@pytest.mark.parametrize(("num_pairs", "more"), [(1, 7), (6, 2), (7, 1)])
def test_the_pairs_that_several_tests_take_are_asked_for(num_pairs, more):
    pairs = [(100.0, 110.0)] * 8
    p_value = holm([compare_pairs(pairs[:num_pairs]).p_value] * 6)[0]
    comparison = compare_pairs(pairs[:num_pairs], 0.02, p_value, 6)
    assert (comparison.outcome, comparison.num_more) == ("inconclusive", more)
    assert compare_pairs(pairs, 0.02, holm([compare_pairs(pairs).p_value] * 6)[0], 6).outcome == "higher"


def test_as_many_pairs_as_are_asked_for_tell_in_about_eight_of_ten_cases():
    noise, effect = 0.05, 0.05
    comparison = compare_pairs([(1.0, math.exp(effect + each)) for each in (-noise, 0.0, noise)])
    num_pairs = comparison.num_pairs + comparison.num_more
    draw = random.Random(5)
    told = 0
    for _ in range(300):
        pairs = [(1.0, math.exp(draw.gauss(effect, noise))) for _ in range(num_pairs)]
        told += compare_pairs(pairs).outcome == "higher"
    assert 215 <= told <= 265


def test_what_is_within_the_margin_asks_for_pairs_until_that_can_be_shown():
    close = compare_pairs([(1.0, 1.03), (1.0, 0.97)] * 4)
    assert close.outcome == "inconclusive"
    nearly = compare_pairs([(1.0, 1.04), (1.0, 0.98)] * 4)
    assert nearly.num_more > close.num_more, "half of the margin is farthest from being told"


@pytest.mark.parametrize("pairs", [[], [(1.0, 0.0)], [(math.nan, 1.0)]])
def test_figures_that_are_none_are_refused(pairs):
    with pytest.raises(ValueError, match=r"pairs|above 0"):
        compare_pairs(pairs)
