"""Times of runs some of which never got there, by hand-computed scores."""

from __future__ import annotations

import pytest

from sample_profiler.analysis.comparing.times_to import TimeTo, compare_times, median_time


def reached(seconds, frames=100):
    return TimeTo(seconds, frames, is_reached=True)


def censored(seconds, frames=1000):
    return TimeTo(seconds, frames, is_reached=False)


def test_who_took_longer_is_known_only_as_far_as_it_went():
    assert reached(3).surely_exceeds(reached(2)) and not reached(2).surely_exceeds(reached(3))
    assert censored(3).surely_exceeds(reached(2)) and censored(3).surely_exceeds(reached(3))
    assert not censored(2).surely_exceeds(reached(3)), "it may have come at once"
    assert not reached(3).surely_exceeds(censored(2)) and not censored(9).surely_exceeds(censored(2))
    assert not reached(3).surely_exceeds(reached(3))


def test_scores_are_exchanged_within_pairs():
    # Scores: 10 s: -3, 11 s: -1 (one below, two above), 12 s: 1, 60 s without: 3. Differences B - A: 6 and 2.
    pairs = [(reached(10), censored(60)), (reached(11), reached(12))]
    found = compare_times(pairs)
    assert found.p_value == pytest.approx(2 / 4), "8 and -8 of 8, 4, -4, -8"
    assert (found.num_reached, found.num_pairs, found.ratios) == ((2, 1), 2, None)
    assert found.outcome == "inconclusive"


def test_runs_that_never_got_there_count_against_a_setting():
    pairs = [(reached(10 + number), censored(60)) for number in range(6)]
    found = compare_times(pairs)
    assert found.outcome == "higher" and found.p_value == pytest.approx(2 / 64)
    assert found.medians == (12, None) and found.num_reached == (6, 0)
    assert compare_times([(b, a) for a, b in pairs]).outcome == "lower"


def test_runs_of_which_none_got_there_tell_nothing():
    found = compare_times([(censored(60), censored(50))] * 8)
    assert (found.p_value, found.outcome, found.medians) == (1.0, "inconclusive", (None, None))


def test_where_all_got_there_the_ratio_is_known_too():
    found = compare_times([(reached(10 + number), reached((10 + number) / 2)) for number in range(8)])
    assert found.outcome == "lower" and found.p_value == pytest.approx(2 / 256)
    assert found.ratios.ratio == pytest.approx(0.5) and found.ratios.p_value == found.p_value
    assert found.medians == (13, 6.5)
    alike = compare_times([(reached(10 + number), reached((10 + number) * 1.001)) for number in range(8)])
    assert alike.outcome == "equivalent"


def test_no_pairs_are_an_error():
    with pytest.raises(ValueError, match="no pairs"):
        compare_times([])


@pytest.mark.parametrize(
    ("times", "median"),
    [
        ([(1, True), (2, True), (3, True)], 2),
        ([(1, True), (2, True), (3, True), (4, True)], 2),
        ([(1, True), (9, False), (9, False)], None),
        ([(1, True), (2, True), (9, False), (9, False)], 2),
        # One ends early without: of the two that are left at 3 s one gets there, 2/3 * 1/2 = 1/3 are left.
        ([(1, True), (2, False), (3, True), (9, False)], 3),
        ([(2, True), (2, True), (2, False)], 2),
        ([], None),
    ],
)
def test_the_median_is_when_half_have_got_there(times, median):
    assert median_time(times) == median
