"""What the Runner counts of what components sleep for."""

from __future__ import annotations

import pytest

from sample_profiler.run.records import sleeps as module
from sample_profiler.run.records.sleeps import SleepCounts


@pytest.fixture
def look_at(monkeypatch):
    """Have processes sleep for these, by number, and return who was looked at."""

    def begin(sleeps):
        looked = []

        def find(pid):
            looked.append(pid)
            return sleeps.get(pid)

        monkeypatch.setattr(module, "find_sleep", find)
        return looked

    return begin


def test_sleeps_are_added_up_by_kind_and_looks_counted(look_at):
    look_at({1: "timer", 2: "disk", 3: "none", 4: "disk", 5: "timer"})
    counts = SleepCounts()
    for name, pid in {"RolloutWorker_w0": 1, "RolloutWorker_w1": 2, "RolloutWorker_w2": 3, "Learner_0": 4}.items():
        counts.watch(name, pid)
    counts.watch("InferenceWorker_p0-w0", 5)
    counts.look()
    counts.look()
    told = {name: number for name, number in counts.gauges().items() if number}
    assert told == {
        "RolloutWorker.looks": 6,
        "RolloutWorker.timer": 2,
        "RolloutWorker.disk": 2,
        "Learner.looks": 2,
        "Learner.disk": 2,
    }


def test_a_successor_takes_the_place_of_a_lost_process(look_at):
    looked = look_at({1: "timer", 2: "timer"})
    counts = SleepCounts()
    counts.watch("RolloutWorker_w0", 1)
    counts.watch("RolloutWorker_w0", 2)
    counts.look()
    assert looked == [2]


def test_of_many_processes_each_has_its_turn(look_at):
    looked = look_at({})
    counts = SleepCounts()
    for number in range(40):
        counts.watch(f"RolloutWorker_w{number}", number)
    for _ in range(5):
        counts.look()
    assert len(looked) == 80, "few at once"
    assert sorted(looked) == sorted([*range(40), *range(40)])


def test_where_nothing_is_told_there_is_nothing_to_read(look_at):
    look_at({})
    counts = SleepCounts()
    counts.watch("RolloutWorker_w0", 1)
    counts.look()
    assert counts.gauges() == {}
