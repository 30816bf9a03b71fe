"""Who stood still is named once, and the time for which the run did is left out."""

from __future__ import annotations

import pytest

from sample_profiler.run.suspensions import Standstills
from sample_profiler.runtime.signals.suspension import StandstillWatch, StoodStill


class Clock:
    def __init__(self, pacemakers):
        self.now_s = 100.0
        watch = StandstillWatch("Runner", lambda: self.now_s, lambda: 0.0)
        self.standstills = Standstills("Runner", pacemakers, lambda: self.now_s, watch)

    def settle(self, after_s=0.0, **options):
        self.now_s += after_s
        self.standstills.look()
        return self.standstills.settle(**options)


def test_a_run_of_one_process_leaves_out_for_how_long_that_stood_still(caplog):
    clock = Clock(["Runner"])
    assert clock.settle(1.0) is None
    assert clock.settle(13.3) is None, "others may tell of it, too"
    assert clock.standstills.is_open
    for _ in range(2):
        assert clock.settle(1.0) is None
    assert clock.settle(1.0) == (102.0, 114.3)
    assert not clock.standstills.is_open
    (record,) = caplog.records
    assert record.getMessage().startswith("Runner stood still for 12.3 s, as when suspended")
    assert clock.settle(1.0) is None, "once"


def test_a_run_stands_still_while_all_its_learners_do(caplog):
    clock = Clock(["Learner_0", "Learner_1"])
    for name, begin_s, end_s in (("Learner_1", 90, 112), ("Batcher_0", 90, 110), ("Learner_0", 95, 110)):
        clock.standstills.note(StoodStill(name, begin_s, end_s))
    assert clock.settle(at_once=True) == (95, 110)
    (record,) = caplog.records
    assert "Learner_1, Batcher_0, Learner_0 stood still for 22.0 s" in record.getMessage()
    assert "throughput" in record.getMessage()


@pytest.mark.parametrize("told", [[("RolloutWorker_w0", 90, 110)], [("Learner_0", 90, 110)], [("Runner", 90, 110)]])
def test_a_run_of_which_a_part_goes_on_is_only_told_of(told, caplog):
    clock = Clock(["Learner_0", "Learner_1"])
    for each in told:
        clock.standstills.note(StoodStill(*each))
    assert clock.settle(at_once=True) is None
    (record,) = caplog.records
    assert f"{told[0][0]} stood still for 20.0 s" in record.getMessage()
    assert "throughput" not in record.getMessage()


def test_learners_that_stood_still_one_after_another_are_no_standstill_of_the_run():
    clock = Clock(["Learner_0", "Learner_1"])
    clock.standstills.note(StoodStill("Learner_0", 80, 90))
    clock.standstills.note(StoodStill("Learner_1", 91, 99))
    assert clock.settle(at_once=True) is None
