"""The histogram and the sums, without a recorder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_profiler.profiling.tree.statistics import Statistics, bucket_bounds_ns, bucket_index

DURATIONS_NS = st.integers(0, 10**18)


@given(DURATIONS_NS)
def test_t6_a_duration_lies_in_its_bucket(duration_ns):
    low, high = bucket_bounds_ns(bucket_index(duration_ns))
    assert low <= duration_ns < high
    assert high - low <= max(1, duration_ns / 16)


def test_t6_buckets_follow_each_other_without_gaps():
    for index in range(900):
        _, high = bucket_bounds_ns(index)
        assert bucket_bounds_ns(index + 1)[0] == high
        assert bucket_index(high) == index + 1


@given(st.lists(DURATIONS_NS, min_size=1), st.sampled_from([0.0, 0.5, 0.95, 0.99, 1.0]))
def test_t6_quantiles_are_within_five_percent(durations_ns, fraction):
    statistics = Statistics()
    statistics.add(durations_ns)
    rank = next(n for n in range(1, len(durations_ns) + 1) if n >= fraction * len(durations_ns))
    exact_ns = sorted(durations_ns)[rank - 1]
    assert abs(statistics.quantile_ns(fraction) - exact_ns) <= 0.05 * exact_ns


def test_quantile_of_nothing_is_zero():
    assert Statistics().quantile_ns(0.5) == 0


@given(st.lists(DURATIONS_NS), st.lists(DURATIONS_NS))
def test_t6_merging_equals_adding_everything(first_ns, second_ns):
    merged, other, whole = Statistics(), Statistics(), Statistics()
    merged.add(first_ns)
    other.add(second_ns)
    before = other.to_dict()
    merged.merge(other)
    whole.add(first_ns + second_ns)
    assert merged.to_dict() == whole.to_dict()
    assert other.to_dict() == before


def test_a_copy_is_independent():
    original = Statistics()
    original.add([1, 2], window=5)
    copy = original.copy()
    copy.add([1000], window=5)
    assert (original.count, original.recent_ns, sum(original.histogram.values())) == (2, [1, 2], 2)


def test_merge_takes_the_pass_that_ended_later_as_the_last():
    early, late = Statistics(), Statistics()
    early.add([7], last_end_ns=100)
    late.add([9], last_end_ns=200)
    late.merge(early)
    assert late.last_ns == 9


def test_the_slowest_passes_have_the_share_of_the_time_that_they_took():
    statistics = Statistics()
    statistics.add([1_000] * 990 + [100_000] * 10)
    assert statistics.share_of_slowest(0.01) == pytest.approx(1_000 / 1_990, rel=0.05)
    assert statistics.share_of_slowest(0.001) == pytest.approx(100 / 1_990, rel=0.05)
    assert statistics.share_of_slowest(1.0) == pytest.approx(1.0)
    assert Statistics().share_of_slowest(0.01) == 0


@given(st.lists(st.integers(0, 10**15), min_size=1))
def test_from_dict_gives_every_nanosecond_back(durations_ns):
    statistics = Statistics()
    statistics.add(durations_ns, window=4)
    again = Statistics.from_dict(statistics.to_dict())
    assert again.to_dict() == statistics.to_dict()
    assert again.recent_ns == statistics.recent_ns
    if statistics.total_ns < 2**52:
        assert again.total_ns == statistics.total_ns


def test_from_dict_names_a_missing_field():
    with pytest.raises(KeyError, match="total"):
        Statistics.from_dict({"count": 1})
