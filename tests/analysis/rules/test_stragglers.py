"""One among many that holds the others back, or nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.made_runs import inference, judge_run, learner, most_fps, worker

SLOW_ENV = {"slowest_env": 3, "slowest_env_ratio": 60.0, "slowest_env_share": 0.9}


def straggler(index=0, steps=100, **options):
    """A worker that steps all the time, as one does that waits for a slow environment."""
    return worker(index, **({"busy": 0.98, "inference": 0.02, "learner": 0.0, "env_step": 0.95} | options), steps=steps)


def others(num, learner_waits=0.0, steps=700):
    waits = {"busy": 0.3, "inference": 0.7 - learner_waits, "learner": learner_waits, "env_step": 0.2}
    return [worker(1 + index, **waits, steps=steps) for index in range(num)]


@pytest.mark.parametrize("gauges", [SLOW_ENV, {}])
@pytest.mark.parametrize(("learner_waits", "busy"), [(0.5, 0.99), (0.05, 0.99)])
def test_stragglers_that_a_busy_learner_does_not_wait_for_are_nothing(gauges, learner_waits, busy):
    loads = [straggler(**gauges), *others(7, learner_waits), inference(0.3), learner(busy)]
    assert judge_run(*loads, machine_busy=0.5, num_cores=16).cause == "learner"


def test_a_learner_that_hardly_waits_gains_too_little_from_stragglers():
    loads = [straggler(**SLOW_ENV), *others(7), inference(0.3)]
    assert judge_run(*loads, learner(0.96, starved=1.0), num_cores=16).cause == "balanced"
    assert judge_run(*loads, learner(0.9), num_cores=16).cause == "slow environment"


@pytest.mark.parametrize("gauges", [SLOW_ENV, {}])
def test_one_of_eight_workers_adds_an_eighth_at_most(gauges):
    loads = [straggler(**gauges), *others(7), inference(0.3), learner(0.5)]
    verdict = judge_run(*loads, machine_busy=0.5, num_cores=16)
    assert verdict.cause == ("slow environment" if gauges else "slow worker")
    # The others made 4,900 of 5,000, and it makes 100 then by as much faster as it is without what is slow.
    then = min(700, 100 / (1 - 0.95 * 0.9 * 59 / 60) if gauges else 700)
    factor = (4900 + then) / 5000
    assert verdict.advice[0].fps == (
        pytest.approx(5000 * (0.95 + 0.4 * (factor - 1))), pytest.approx(most_fps(factor))
    )  # fmt: skip


@pytest.mark.parametrize("gauges", [SLOW_ENV, {}])
def test_what_a_straggler_sleeps_for_is_told(gauges):
    loads = [straggler(asleep=0.8, **gauges), *others(7), inference(0.3), learner(0.5)]
    verdict = judge_run(*loads, machine_busy=0.5, num_cores=16, sleeps={"RolloutWorker": {"timer": 0.1}})
    told = "RolloutWorker_w0 sleeps 80 % of the time in its work: for a moment to come (sleep) 100 %"
    assert told in verdict.evidence


def test_one_of_very_many_workers_is_not_worth_naming():
    loads = [straggler(**SLOW_ENV), *others(40), inference(0.3), learner(0.5)]
    assert judge_run(*loads, machine_busy=0.5, num_cores=64).cause != "slow environment"


def test_two_workers_of_which_one_has_a_slow_environment_on_two_used_up_cores():
    quick = worker(1, busy=0.6, inference=0.4, learner=0.0, env_step=0.4, steps=900)
    loads = [straggler(steps=250, **SLOW_ENV), quick, inference(0.9, starved=0.3), learner(0.6, starved=0.4)]
    verdict = judge_run(*loads, machine_busy=0.95)
    assert verdict.cause == "slow environment"
    assert verdict.advice[0].fps[1] == pytest.approx(most_fps(1 / 0.95)), "the processors are the limit then"


@pytest.mark.parametrize(("busy", "cause"), [(0.82, "slow worker"), (0.92, "learner")])
def test_a_learner_that_waits_for_samples_waits_for_stragglers_however_busy_it_is(busy, cause):
    quick = worker(1, busy=0.4, inference=0.2, learner=0.4, env_step=0.1, steps=900)
    load = learner(busy, starved=0.4, gauges={"num_threads": 2})
    assert judge_run(straggler(steps=250), quick, inference(0.3), load, machine_busy=0.97).cause == cause


def test_the_worst_environment_is_named_first_and_all_of_them():
    little = {"slowest_env": 40, "slowest_env_ratio": 9.0, "slowest_env_share": 0.3}
    verdict = judge_run(
        straggler(0, **little), straggler(1, **SLOW_ENV), inference(0.1), learner(0.2), machine_busy=0.2
    )
    assert verdict.headline.startswith("Environment 3 ")
    assert verdict.evidence[-1] == "environments that are slow in their workers, too: 40"
    assert verdict.advice[0].change == "look at what environments 3, 40 do otherwise"
    assert verdict.advice[0].fps[1] > 5000 * 2


def test_a_worker_that_mostly_waits_is_not_held_up_by_its_environments():
    waiting = {"busy": 0.35, "inference": 0.65, "env_step": 0.31}
    loads = [straggler(**waiting, **SLOW_ENV), *others(1), inference(0.97), learner(0.5)]
    assert judge_run(*loads).cause == "inference"


def test_a_synchronous_run_waits_for_its_slowest_worker_as_a_whole():
    # All make as much, since each dataset has a part of each.
    loads = [straggler(steps=200), *others(7, learner_waits=0.6, steps=200), inference(0.1), learner(0.2)]
    loads[1:8] = [worker(1 + i, busy=0.3, inference=0.1, learner=0.6, env_step=0.1, steps=200) for i in range(7)]
    verdict = judge_run(*loads, machine_busy=0.2, num_cores=16, config={"async_rl": False})
    assert verdict.cause == "slow worker"
    assert verdict.advice[0].fps[1] == pytest.approx(most_fps(min(1 / 0.2, 1 / (1 - 0.95 * (1 - 0.1 / 0.95)))))


def test_all_slow_workers_are_named_and_what_quick_ones_wait_for_memory_is_part_of_the_gain():
    slow = [straggler(index, steps=100) for index in range(3)]
    quick = [worker(3 + i, busy=0.2, inference=0.3, learner=0.5, env_step=0.1, steps=400) for i in range(4)]
    verdict = judge_run(*slow, *quick, inference(0.1), learner(0.1), machine_busy=0.1, num_cores=16)
    assert verdict.cause == "slow worker"
    assert verdict.evidence[-1] == "workers that are slow, too: RolloutWorker_w1, RolloutWorker_w2"
    # A quick worker waits while both of its groups do, each of them the root of 0.5 of the time. A step of a slow one
    # takes 38 times as long as theirs, and becomes as quick. They made 1,900 together.
    unhindered = 400 / (1 - 0.5**0.5)
    as_quick = 100 / (1 - 0.95 * (1 - 1 / 38))
    assert verdict.advice[0].fps[1] == pytest.approx(most_fps((4 * unhindered + 3 * as_quick) / 1900))


TAIL = {
    **{"tail_share": 0.8, "tail_steps_share": 0.002, "tail_step_s": 0.4, "tail_num_steps": 20},
    **{"tail_num_envs": 2, "tail_env": 3, "tail_other_env": 7},
}


def tailed(index=0, cpu=0.1, **gauges):
    waits = {"busy": 0.98, "inference": 0.02, "learner": 0.0, "env_step": 0.95}
    return worker(index, **waits, cpu=cpu, asleep=0.8, **(TAIL | gauges))


def judge_tails(*workers, learner_busy=0.1):
    return judge_run(*workers, inference(0.1), learner(learner_busy), machine_busy=0.2)


def test_a_few_steps_that_take_most_of_the_time_are_named_with_their_environments():
    verdict = judge_tails(tailed(0), tailed(1, tail_num_envs=1, tail_env=19))
    assert (verdict.cause, verdict.component) == ("rare slow steps", "RolloutWorker_w0")
    assert verdict.headline.endswith("0.2 % of them take 80 % of the time")
    assert verdict.evidence[0].endswith("400 ms each, in environments 3 and 7")
    assert "workers of which the same is true: RolloutWorker_w1" in verdict.evidence
    assert verdict.advice[0].fps[1] > 5000 * 2


@pytest.mark.parametrize(
    ("gauges", "where"),
    [
        ({"tail_num_envs": 1}, "in environment 3"),
        ({"tail_num_envs": 16}, "in all of its 16 environments"),
        ({"tail_num_envs": 2, "tail_num_steps": 2}, "in 2 of its 16 environments"),  # it may be by chance
    ],
)
def test_environments_are_named_where_it_can_hardly_be_chance(gauges, where):
    assert judge_tails(tailed(**gauges), tailed(1)).evidence[0].endswith(where)


@pytest.mark.parametrize(
    "gauges",
    [
        {"tail_share": 0.2},
        {"tail_steps_share": 0.2},
        {"tail_step_s": 0.001},
    ],
)
def test_what_is_short_or_frequent_or_takes_little_is_no_tail(gauges):
    assert judge_tails(tailed(**gauges), tailed(1, **gauges)).cause != "rare slow steps"


def test_a_tail_of_steps_is_none_where_environments_are_mostly_reset():
    blocks = {"env_step": 0.9, "env_step/env_reset": 0.8}
    verdict = judge_tails(*(replace(tailed(index), blocks=blocks) for index in range(2)))
    assert verdict.cause != "rare slow steps"


def test_steps_that_waited_for_a_processor_are_no_slow_steps():
    loads = [replace(tailed(index), queued=0.75, asleep=0.0, cpu=0.2) for index in range(2)]
    assert judge_tails(*loads).cause != "rare slow steps"


def test_slow_steps_that_nobody_waits_for_are_nothing():
    assert judge_tails(tailed(0), tailed(1), learner_busy=0.97).cause != "rare slow steps"
