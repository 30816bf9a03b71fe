"""Of many warnings alike few are logged."""

from __future__ import annotations

from sample_profiler.repeated_warnings import is_logged


def test_fewer_and_fewer_of_many_warnings_are_logged():
    assert [number for number in range(1, 20_000) if is_logged(number)] == [1, 10, 100, 1000, 10_000]
