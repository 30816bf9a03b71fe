"""The search finds the best setting of made-up machines, within its budget, however noisy and drifting they are."""

from __future__ import annotations

import math
import random

import pytest

from sample_profiler.cli.tune.search import AS_IT_IS, Measured, Search, worths
from sample_profiler.cli.tune.settings import Base, first_settings, neighbours
from tests.cli.tune.test_settings import FLAGS

BASE = Base(FLAGS, num_cores=2)
IN_WORKERS = (("inference", "worker"),)


def speed_of(setting):
    """Frames per second of a machine that likes two workers, inference in them, and pipes."""
    workers = BASE.value(setting, "num_workers")
    speed = 10_000 * (1.0 - 0.1 * abs(math.log2(workers / 2)))
    speed *= 1.3 if BASE.value(setting, "inference") == "worker" else 1.0
    speed *= 0.9 if BASE.value(setting, "worker_num_splits") == 2 else 1.0
    return speed * (0.7 if BASE.value(setting, "transport") == "fifo" else 1.0)


def best_speed():
    first = first_settings(BASE)
    return max(map(speed_of, [(), *first, *(each for setting in first for each in neighbours(BASE, setting))]))


class Machine:
    """Runs settings, with noise, and ever slower.

    Args:
        num_runs: that the budget allows for.
    """

    def __init__(self, num_runs, noise=0.0, drift=0.0, seed=1, speed=speed_of):
        self.left = num_runs
        self.ran = []
        self._speed, self._noise, self._drift = speed, noise, drift
        self._random = random.Random(seed)

    def measure(self, setting, _):
        self.left -= 1
        self.ran.append(setting)
        speed = self._speed(setting)
        return speed and speed * self._random.lognormvariate(0, self._noise) * (1 - self._drift) ** len(self.ran)

    def num_left(self):
        return self.left

    def search(self, earlier=(), hints=()):
        search = Search(BASE, self.measure, self.num_left, hints, earlier)
        search.run()
        return search.outcome()


@pytest.mark.parametrize("seed", range(5))
def test_the_best_is_found_although_the_machine_is_noisy_and_becomes_slower(seed):
    machine = Machine(45, noise=0.03, drift=0.01, seed=seed)
    outcome = machine.search()
    assert speed_of(outcome.best) >= 0.95 * best_speed()
    assert machine.left >= 0
    assert outcome.comparison.ratio == pytest.approx(speed_of(outcome.best) / speed_of(()), rel=0.08)


def test_a_small_budget_is_not_exceeded_and_begins_with_what_the_verdict_says():
    machine = Machine(8, noise=0.02)
    outcome = machine.search(hints=[{"inference": "worker"}])
    assert machine.left >= 0
    assert machine.ran[:2] == [AS_IT_IS, IN_WORKERS]
    assert speed_of(outcome.best) > 1.2 * speed_of(())


def test_nothing_is_changed_where_nothing_is_faster():
    outcome = Machine(40, noise=0.01, speed=lambda setting: 1000.0 if setting == () else 1005.0).search()
    assert outcome.best == AS_IT_IS
    assert outcome.comparison is None


def test_a_setting_that_cannot_run_is_left_out():
    outcome = Machine(30, speed=lambda setting: None if "inference" in dict(setting) else speed_of(setting)).search()
    assert "inference" not in dict(outcome.best)
    assert speed_of(outcome.best) > speed_of(())


def test_fewer_processes_that_are_as_fast_are_named():
    def flat(setting):
        return 1000.0 + BASE.value(setting, "num_workers")

    outcome = Machine(60, speed=flat).search()
    assert outcome.leaner is not None
    assert BASE.value(outcome.leaner, "num_workers") < 4


def test_an_interrupted_search_tells_what_it_knows_and_goes_on_with_that():
    machine = Machine(40)

    def measure(setting, number):
        if len(machine.ran) == 6:
            raise KeyboardInterrupt
        return machine.measure(setting, number)

    search = Search(BASE, measure, machine.num_left)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    known = search.outcome()
    assert len(known.runs) == 6
    assert not known.is_complete
    later = Machine(40)
    outcome = later.search(earlier=known.runs)
    assert not {run.setting for run in known.runs} - {AS_IT_IS, outcome.best} & set(later.ran[:3])
    assert speed_of(outcome.best) >= 0.95 * best_speed()


def test_what_a_setting_is_worth_does_not_depend_on_when_it_ran():
    runs = [Measured((), 1, 100.0), Measured(IN_WORKERS, 1, 130.0), Measured((), 2, 50.0)]
    other = (("transport", "fifo"),)
    expected = {(): 1.0, IN_WORKERS: 1.3, other: 1.2}
    assert worths([*runs, Measured(other, 2, 60.0)]) == pytest.approx(expected, rel=0.02)
    alone = (("num_workers", 2),)
    assert worths([*runs, Measured(alone, 3, 70.0)])[alone] == pytest.approx(1.0, rel=0.1)
    assert worths([]) == {}


def test_without_any_run_the_command_stays_as_it_is():
    assert Search(BASE, lambda *_: None, lambda: 0).outcome().best == AS_IT_IS
