"""Which counts differ between two settings, and which vary by themselves."""

from __future__ import annotations

import random

import pytest

from sample_profiler.analysis.comparing.cost_changes import CountChange, count_changes
from sample_profiler.analysis.comparing.costs import BlockCost, RunCosts
from sample_profiler.analysis.facts import RunFacts

FACTS = RunFacts(1.0, 0.0, None, None, None, False, ())


def make_run(**passes):
    """A run with these passes through blocks of its Learner."""
    return RunCosts(1000.0, FACTS, {f"Learner/{name}": BlockCost(count, 1.0) for name, count in passes.items()})


def test_counts_without_noise_are_told_with_the_largest_change_first():
    pairs = [(make_run(train=10, update=20, same=3), make_run(train=20, update=19, same=3))] * 4
    assert count_changes(pairs) == [CountChange("Learner/train", 10, 20), CountChange("Learner/update", 20, 19)]


@pytest.mark.parametrize("order", [1, -1])
def test_a_count_that_is_higher_in_one_run_alone_is_not(order):
    pairs = [(make_run(train=10), make_run(train=count))[::order] for count in (20, 20, 20, 9)]
    assert count_changes(pairs) == []


def test_counts_that_differ_in_all_pairs_and_overlap_are_not():
    pairs = [(make_run(train=10 + number), make_run(train=10.5 + number)) for number in range(4)]
    assert count_changes(pairs) == []


def test_counts_that_hardly_differ_are_the_same():
    pairs = [(make_run(train=1000), make_run(train=count)) for count in (1004, 1004, 1020)]
    assert count_changes(pairs) == [], "0.4 % in the median"
    assert len(count_changes([(make_run(train=1000), make_run(train=1006))])) == 1


def test_a_setting_with_itself_has_hardly_any_difference():
    draw = random.Random(1)
    names = [f"block_{number}" for number in range(30)]

    def make_noisy_run():
        return make_run(**{name: 100 * draw.uniform(0.9, 1.1) for name in names})

    found = [count_changes([(make_noisy_run(), make_noisy_run()) for _ in range(8)]) for _ in range(40)]
    assert sum(map(len, found)) <= 2, "of 1,200 blocks"


def test_a_block_that_only_one_setting_has_is_told_first():
    pairs = [(make_run(train=10), make_run(train=20, extra=1, wait_for_extra=1))] * 2
    assert [(change.path, change.a) for change in count_changes(pairs)] == [
        ("Learner/extra", 0),
        ("Learner/wait_for_extra", 0),
        ("Learner/train", 10),
    ]
    pairs.append((make_run(train=10, extra=1), make_run(train=20)))
    assert [change.path for change in count_changes(pairs)] == ["Learner/train"], "not all of its runs have it"


@pytest.mark.parametrize("name", ["wait_for_batcher", "receive", "save_checkpoint"])
def test_blocks_that_go_by_the_clock_or_by_speed_are_left_out(name):
    assert count_changes([(make_run(**{name: 10}), make_run(**{name: 20}))] * 4) == []
