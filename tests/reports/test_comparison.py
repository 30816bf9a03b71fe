"""What is said of comparisons."""

from __future__ import annotations

from sample_profiler.analysis.comparing.comparison import compare_pairs
from sample_profiler.analysis.comparing.cost_changes import CountChange
from sample_profiler.reports.comparison import describe_throughput, format_block_changes, format_counts


def describe(*values, margin=0.02):
    return describe_throughput(compare_pairs([(100.0, value) for value in values], margin), margin)


def test_a_difference_has_its_interval_and_p_value():
    assert describe(*[110.0] * 8) == "B is faster: +10.0 % (95 % interval +10.0 % to +10.0 %, p = 0.008, 8 pairs)"
    assert describe(*[90.0] * 8).startswith("B is slower: -10.0 % (")
    assert describe(*[100.4] * 8).startswith("B is as fast as A within 2 %: +0.4 % (")


def test_few_pairs_have_no_interval():
    assert describe(101.0) == (
        "It cannot be told from 1 pair which is faster: +1.0 %. About 5 more pairs would tell in 8 of 10 cases"
    )
    assert describe(*[100.1] * 5) == (
        "It cannot be told from 5 pairs which is faster: +0.1 %. About 1 more pair would tell in 8 of 10 cases"
    )


def test_a_p_value_that_is_drawn_is_said_to_be_so():
    assert "p = 0.000, 20 pairs" in describe(*[110.0] * 20)
    assert "p = 0.000, drawn, 21 pairs" in describe(*[110.0] * 21)


def test_chosen_blocks_have_outcome_p_value_and_the_pairs_that_they_lack():
    slower, open_ = compare_pairs([(1.0, 1.1)] * 8), compare_pairs([(1.0, 1.1)] * 6, p_value=0.1875, num_tests=6)
    lines = format_block_changes({"slow": slower, "open": open_, "other": slower}, ["slow", "open"]).splitlines()
    assert lines[1].endswith("+10 % to +10 %  slower, p = 0.008")
    assert lines[2].endswith("inconclusive, p = 0.188; About 2 more pairs would tell in 8 of 10 cases")
    assert lines[3].endswith("+10 %"), "not chosen"


def test_counts_are_a_table_of_the_first_dozen():
    changes = [CountChange("new", 0, 2000), CountChange("gone", 3, 0)]
    changes += [CountChange(f"block_{number}", 10, 20) for number in range(12)]
    lines = format_counts(changes).splitlines()
    assert lines[1].split() == ["new", "none", "2e+03"]
    assert lines[2].split() == ["gone", "3", "none"]
    assert lines[3].split() == ["block_0", "10", "20", "2.00", "×"]
    assert len(lines) == 14 and lines[-1] == "… and 2 more"
    assert format_counts([]) == "Passes through blocks per 1,000 frames: no difference"
