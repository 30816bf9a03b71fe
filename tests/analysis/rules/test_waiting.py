"""Environments that sleep in their steps, and those that only look like it."""

from __future__ import annotations

import pytest

from sample_profiler.config import parse_config
from tests.analysis.made_runs import inference, judge_run, learner, load, most_fps

TIMER = {"RolloutWorker": {"timer": 0.9, "disk": 0.0}}


def sleeper(index, asleep=0.85, cpu=0.1, queued=0.02, resetting=0.0, **options):
    waits, blocks = {"inference": 0.03, "learner": 0.0}, {"env_step": 0.95, "env_step/env_reset": resetting}
    counts = {"env_step": 1000, "env_step/env_reset": 50}
    name = f"RolloutWorker_w{index}"
    return load(name, 0.97, waits, blocks, counts, cpu=cpu, asleep=asleep, queued=queued, **options)


def judge_sleepers(machine_busy=0.15, learner_busy=0.1, num_workers=2, sleeps=TIMER, config=None, **options):
    workers = [sleeper(index, **options) for index in range(num_workers)]
    loads = [*workers, inference(0.05, cpu=0.05), learner(learner_busy, cpu=0.05)]
    return judge_run(*loads, machine_busy=machine_busy, sleeps=sleeps, config=config)


def test_environments_that_sleep_want_as_many_workers_as_processors_have_room_for():
    verdict = judge_sleepers(gauges={"memory_mib": 80.0})
    assert verdict.cause == "waiting environments"
    assert "a moment to come (sleep) 100 %" in verdict.evidence[0]
    # 0.3 cores are used, and 1.7 idle: with 6.7 times as many workers they are used up.
    assert verdict.advice[0].change == "--num_workers=13"
    assert verdict.advice[0].why.endswith("each of them takes 80 MiB")
    assert verdict.advice[0].fps == (pytest.approx(5000 * (0.95 + 0.4 * 5.5)), pytest.approx(most_fps(6.5)))
    assert parse_config(["--env=none", verdict.advice[0].change]).sampling.num_workers == 13


def test_there_are_no_more_workers_than_the_learner_has_room_for():
    assert judge_sleepers(learner_busy=0.5).advice[0].change == "--num_workers=4"
    assert not judge_sleepers(learner_busy=0.83).advice[0].change.startswith("--num_workers")


def test_where_others_use_the_processors_there_is_no_room_for_more_workers():
    verdict = judge_sleepers(machine_busy=0.99)
    assert verdict.cause == "waiting environments"
    assert [advice.change for advice in verdict.advice] == ["an environment that does not wait"]


def test_a_disk_may_not_do_more_at_once():
    verdict = judge_sleepers(sleeps={"RolloutWorker": {"disk": 0.8, "timer": 0.01}})
    assert "a disk 99 %" in verdict.evidence[0]
    assert verdict.advice[0].fps[0] == pytest.approx(5000 * (0.95 + 0.1 * 5.5))


@pytest.mark.parametrize(("what", "cause"), [("disk", "waiting environments"), ("timer", "environments")])
def test_what_the_system_computes_while_a_disk_is_waited_for_belongs_to_it(what, cause):
    sleeps = {"RolloutWorker": {what: 0.2}}
    verdict = judge_sleepers(machine_busy=0.5, asleep=0.17, queued=0.45, cpu=0.35, system=0.25, sleeps=sleeps)
    assert verdict.cause == cause
    if what == "disk":
        assert "the system computes for files and the like 25 % of the time" in verdict.evidence


def test_what_nobody_could_look_at_is_said_to_be_unknown():
    assert "what this machine does not tell" in judge_sleepers(sleeps={}).evidence[0]


@pytest.mark.parametrize(
    "options",
    [
        {"asleep": None, "cpu": 0.9},
        {"asleep": 0.1, "cpu": 0.85},
        {"asleep": 0.9, "children_cpu": 0.8},  # a game in a process of its own
        {"asleep": 0.6, "cpu": 0.95},  # threads of its own
    ],
)
def test_who_computes_or_waits_for_what_computes_wants_cores(options):
    assert judge_sleepers(machine_busy=0.6, **options).cause == "environments"


def test_a_learner_that_does_not_wait_is_not_held_up():
    assert judge_sleepers(learner_busy=0.9).cause != "waiting environments"


def test_environments_that_wait_for_a_processor_for_most_of_their_steps_still_sleep_in_the_rest():
    verdict = judge_sleepers(machine_busy=0.79, asleep=0.32, cpu=0.4, queued=0.3)
    assert verdict.cause == "waiting environments"


def test_resets_that_sleep_are_told_apart_from_steps():
    verdict = judge_sleepers(resetting=0.9)
    assert verdict.headline == "Waiting environments are the limit: their resets wait for a moment to come (sleep)"
    assert "95 % of it is resetting, 1,080.0 ms each time" in verdict.evidence
    assert "a step of an environment takes 0.4 ms" in verdict.evidence
    assert verdict.advice[-1].change == "resets that do not wait"
    usual = judge_sleepers(resetting=0.05)
    assert "their steps wait" in usual.headline and not any("resetting" in each for each in usual.evidence)
