"""Which lost RolloutWorkers are replaced, and which losses end the run."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from sample_profiler.components.messages import Counters
from sample_profiler.config import parse_config
from sample_profiler.run.lost_components.replacements import Replacements
from sample_profiler.runtime.processes.failure import Failure
from tests.doubles.clocks import Clock

KILLED = Failure("RolloutWorker_w1", "its process was killed by signal 9 (SIGKILL)", "")
RAISED = Failure("RolloutWorker_w1", "EnvError: environment 3 raised in step", "", was_raised=True)


@pytest.fixture
def make(make_run):
    def make_replacements(*flags, clock=time.monotonic, **sampling):
        plan, _ = make_run(**{"num_workers": 2, "num_envs_per_worker": 2} | sampling)
        counters = Counters(2, 1)
        replacements = Replacements(parse_config(["--env=any", *flags]).faults, counters, plan, clock)
        return replacements, counters

    return make_replacements


def test_only_rollout_workers_are_replaced_and_only_if_wanted(make):
    replacements, _ = make()
    assert replacements.covers("RolloutWorker_w0")
    assert not any(map(replacements.covers, ["Learner_0", "Batcher_0", "InferenceWorker_p0-w0", "Runner"]))
    replacements, _ = make("--on_worker_failure=stop")
    assert not replacements.covers("RolloutWorker_w0")


def test_a_killed_worker_is_replaced_even_if_it_had_done_nothing(make):
    replacements, _ = make()
    assert replacements.find_objection(KILLED) is None


def test_a_worker_that_raises_in_its_first_rollout_is_not_replaced(make):
    replacements, counters = make()
    counters.agent_steps[1, 0] = 7  # two environments, rollouts of four steps
    assert "not finished a single rollout" in replacements.find_objection(RAISED)
    counters.agent_steps[1, 0] = 8
    assert replacements.find_objection(RAISED) is None


@pytest.mark.parametrize("is_successor", [False, True])
def test_steps_of_groups_none_of_which_has_finished_are_no_rollout(make, is_successor):
    replacements, counters = make(num_envs_per_worker=3, worker_num_splits=2)
    if is_successor:
        counters.agent_steps[1, 0] = 801
        replacements.note(KILLED)
    before = int(counters.agent_steps[1, 0])
    counters.agent_steps[1, 0] = before + 3 * 2 + 3 * 1  # each group has taken three of four steps
    assert "not finished a single rollout" in replacements.find_objection(RAISED)
    counters.agent_steps[1, 0] = before + 4 * 3
    assert replacements.find_objection(RAISED) is None


def test_a_successor_has_to_finish_a_rollout_of_its_own(make):
    replacements, counters = make()
    counters.agent_steps[1, 0] = 800
    replacements.note(KILLED)
    assert "not finished a single rollout" in replacements.find_objection(RAISED)


def test_the_same_error_again_within_a_minute_is_not_to_be_healed(make):
    clock = Clock()
    replacements, counters = make(clock=clock)
    counters.agent_steps[1, 0] = 800
    replacements.note(RAISED)
    counters.agent_steps[1, 0] += 800
    other = Failure("RolloutWorker_w1", "EnvError: another one", "", was_raised=True)
    assert replacements.find_objection(other) is None
    assert "in the same way" in replacements.find_objection(RAISED)
    clock.now_s += 61
    assert replacements.find_objection(RAISED) is None


def test_an_environment_that_breaks_its_contract_is_not_tried_again(make):
    replacements, counters = make()
    counters.agent_steps[1, 0] = 800
    broken = Failure("RolloutWorker_w1", "EnvContractError: environment 3 returned NaN", "", was_raised=True)
    assert "contract" in replacements.find_objection(broken)


def test_there_is_a_limit_for_each_hour(make):
    clock = Clock()
    replacements, _ = make("--max_worker_restarts=2", clock=clock)
    for _ in range(2):
        assert replacements.find_objection(KILLED) is None
        replacements.note(KILLED)
        clock.now_s += 10
    assert "2 workers have been replaced within an hour" in replacements.find_objection(KILLED)
    clock.now_s += 3585
    assert replacements.find_objection(KILLED) is None
    assert replacements.num_recent == 1
    assert replacements.num_replaced == 2


def test_a_worker_whose_environments_leak_is_replaced_as_one_that_is_killed_for_it(make):
    """It may tell of that in the same words each time; --max_worker_restarts bounds it."""
    replacements, counters = make("--max_worker_restarts=3")
    leaks = Failure("RolloutWorker_w1", "MemoryError", "", was_raised=True, lacks_memory=True)
    for number in range(3):
        assert replacements.num_lacking_memory("RolloutWorker_w1") == number
        counters.agent_steps[1, 0] += 800
        assert replacements.find_objection(leaks) is None
        replacements.note(leaks)
    replacements.note(KILLED)
    assert replacements.num_lacking_memory("RolloutWorker_w1") == 3
    assert replacements.num_lacking_memory("RolloutWorker_w0") == 0
    assert "--max_worker_restarts=3" in replacements.find_objection(leaks)


def test_a_worker_that_hangs_at_its_start_as_the_one_before_is_not_replaced_again(make):
    hung = Failure("RolloutWorker_w1", "it has shown no sign of life for 10 s", "", is_hang=True)
    replacements, counters = make()
    assert replacements.find_objection(hung) is None, "once it may have been bad luck"
    replacements.note(hung)
    assert replacements.find_objection(replace(hung, component="RolloutWorker_w0")) is None
    assert replacements.find_objection(KILLED) is None
    assert "like the one that it had replaced, it hung before" in replacements.find_objection(hung)
    counters.agent_steps[1, 0] = 8
    assert replacements.find_objection(hung) is None, "it has finished a rollout meanwhile"
