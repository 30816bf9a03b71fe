"""The verdict on runs whose figures are made up: each cause by the figures that it shows itself in."""

from __future__ import annotations

from typing import get_args

import pytest

from sample_profiler.analysis.verdict import Cause
from sample_profiler.config import parse_config
from sample_profiler.reports.sections.verdict import format_verdict, verdict_to_dict
from tests.analysis.made_runs import batcher, inference, judge_run, learner, limits, load, worker

TAIL = {
    **{"tail_share": 0.8, "tail_steps_share": 0.002, "tail_step_s": 0.4, "tail_num_steps": 20},
    **{"tail_num_envs": 2, "tail_env": 3, "tail_other_env": 7},
}
"""A few steps of two environments that take most of the time."""

RUNS = {
    "not enough data": lambda: judge_run(worker(0), inference(), learner(0.5), seconds=3.0),
    "start-up": lambda: judge_run(worker(0), inference(), learner(0.5), start_s=200.0),
    "lost workers": lambda: judge_run(
        *(load("RolloutWorker_w0", 0.9, wall_s=20.0, work_s={"start_up": 12.0, "env_step": 6.0}) for _ in range(3)),
        inference(), learner(0.1), machine_busy=1.0,
    ),
    "serial": lambda: judge_run(worker(0), inference(), learner(0.5), is_serial=True),
    "simulator": lambda: judge_run(
        load("RolloutWorker_w0", 0.8, blocks={"env_step": 0.7, "env_step/simulate": 0.65}), inference(), learner(0.2),
        is_serial=True,
    ),
    "launches": lambda: judge_run(
        load("RolloutWorker_w0", 0.3, {"device": 0.02}, device={"env_step": 0.3, "env_step/simulate": 0.2}),
        inference(), learner(0.5, device={"train": 0.5}), is_serial=True,
    ),
    "observers": lambda: judge_run(
        worker(0), inference(), learner(0.5), load("Runner", 0.5, blocks={"observers/Mine": 0.4}), is_serial=True
    ),
    "quota": lambda: judge_run(
        worker(0), inference(), learner(0.5), machine_busy=1.0, num_cores=1, limits=limits(4, 0.5, 0.97)
    ),
    "one core": lambda: judge_run(
        worker(0), inference(), learner(0.5), machine_busy=1.0, num_cores=1, limits=limits(4)
    ),
    "rare slow steps": lambda: judge_run(
        worker(0, busy=0.95, env_step=0.9, **TAIL), worker(1, busy=0.95, env_step=0.9), inference(), learner(0.3),
        machine_busy=0.3,
    ),
    "saving": lambda: judge_run(
        *(worker(i, learner=0.4) for i in range(2)), inference(),
        learner(0.97, {"timers": 0.25, "timers/save_checkpoint": 0.24}, {"timers/save_checkpoint": 20}),
    ),
    "too many inference workers": lambda: judge_run(
        *(worker(i, learner=0.05) for i in range(2)), *[inference(0.5, 2.0, starved=0.3)] * 6, learner(0.7),
        machine_busy=0.98, config={"policy_workers_per_policy": 6},
    ),
    "waiting environments": lambda: judge_run(
        *(worker(i, busy=0.95, env_step=0.9, inference=0.05, learner=0.0, cpu=0.1, asleep=0.85) for i in range(2)),
        inference(0.1), learner(0.1), machine_busy=0.2, sleeps={"RolloutWorker": {"timer": 0.85, "disk": 0.0}},
    ),
    "slow environment": lambda: judge_run(
        worker(0, slowest_env=3, slowest_env_ratio=9.0, slowest_env_share=0.5), worker(1), inference(), learner(0.5)
    ),
    "slow worker": lambda: judge_run(worker(0, steps=300), worker(1), inference(), learner(0.6)),
    "too many threads": lambda: judge_run(
        worker(0), worker(1), inference(), learner(0.9, cpu=1.5, starved=6.0), machine_busy=1.0
    ),
    "ranks": lambda: judge_run(
        *(worker(i, inference=0.1, learner=0.5, busy=0.4) for i in range(2)), inference(0.3),
        load("Learner_0", 0.35, {"ranks": 0.6, "batcher": 0.05}, {"train": 0.35}, {"train": 100},
             gauges={"slowest_rank": 3.0}),
        machine_busy=0.5,
    ),
    "all-reduce": lambda: judge_run(
        *(worker(i, inference=0.1, learner=0.6, busy=0.3) for i in range(2)), inference(0.3),
        learner(0.97, {"train/update/all_reduce": 0.5}, {"train/update/all_reduce": 1000}),
    ),
    "remote trajectories": lambda: judge_run(
        worker(0, busy=0.5, learner=0.0), inference(0.3), learner(0.3),
        load("RemoteSampler", 0.1, {"actors": 0.9}, gauges={"way_share": 0.8}),
    ),
    "too few threads": lambda: judge_run(
        *(worker(i, learner=0.4) for i in range(2)), inference(),
        learner(0.97, cpu=0.95, gauges={"num_threads": 1}), machine_busy=0.5,
    ),
    "batching": lambda: judge_run(
        *(worker(i, learner=0.4) for i in range(2)), inference(), learner(0.5), batcher(0.9, finished=300)
    ),
    "policy lag": lambda: judge_run(
        *(worker(i, learner=0.4) for i in range(2)), inference(), batcher(finished=200),
        learner(0.97, gauges={"policy_lag": 30.0, "left_out_share": 0.4}), config={"max_policy_lag": 20},
    ),
    "taking turns": lambda: judge_run(
        worker(0, learner=0.5), worker(1, learner=0.5), inference(), learner(0.5), config={"async_rl": False}
    ),
    "buffers": lambda: judge_run(worker(0, learner=0.4), worker(1, learner=0.4), inference(), learner(0.6)),
    "device transfer": lambda: judge_run(
        *(worker(i, learner=0.4) for i in range(2)), inference(), learner(0.97, device={"prepare_batch": 0.6})
    ),
    "learner": lambda: judge_run(worker(0, learner=0.4), worker(1, learner=0.4), inference(), learner(0.97)),
    "small inference batches": lambda: judge_run(
        worker(0, inference=0.7, learner=0.0), worker(1, inference=0.7, learner=0.0), inference(0.9, 2.0), learner(0.4)
    ),
    "inference": lambda: judge_run(
        worker(0, inference=0.7, learner=0.0), worker(1, inference=0.7, learner=0.0), inference(0.95), learner(0.4)
    ),
    "environments": lambda: judge_run(
        *(worker(i, busy=0.95, env_step=0.9, inference=0.05, learner=0.0) for i in range(2)), inference(), learner(0.4)
    ),
    "too few environments": lambda: judge_run(
        *(worker(i, busy=0.3, env_step=0.2, inference=0.7, learner=0.0) for i in range(2)),
        inference(0.4), learner(0.3), machine_busy=0.5,
    ),
    "processor": lambda: judge_run(
        *(worker(i, learner=0.05) for i in range(2)), inference(), learner(0.9), machine_busy=0.99
    ),
    "balanced": lambda: judge_run(*(worker(i, learner=0.05) for i in range(2)), inference(), learner(0.9)),
}  # fmt: skip


def test_there_is_a_run_for_every_cause():
    assert set(RUNS) == set(get_args(Cause))


@pytest.mark.parametrize("cause", RUNS)
def test_each_cause_is_named_with_evidence_and_a_way_out(cause):
    verdict = RUNS[cause]()
    assert verdict.cause == cause, format_verdict(verdict)
    assert verdict.evidence or cause == "not enough data"
    assert verdict.advice or cause == "balanced"
    for advice in verdict.advice:
        if advice.fps is not None:
            low, high = advice.fps
            assert 4750.0 <= low <= high < 60_000


@pytest.mark.parametrize("cause", RUNS)
def test_advice_that_is_flags_is_taken_by_the_program(cause):
    for advice in RUNS[cause]().advice:
        if advice.change.startswith("--"):
            flags = advice.change.split()
            config = parse_config(["--env=none", "--batch_size=2048", "--num_envs_per_worker=16", *flags])
            assert {config.origin(flag.removeprefix("--").partition("=")[0]) for flag in flags} == {"command line"}


def test_the_slowest_are_named():
    assert RUNS["slow worker"]().component == "RolloutWorker_w0"
    assert "Environment 3 is slow" in RUNS["slow environment"]().headline
    assert RUNS["too many threads"]().component == "Learner_0"
    assert RUNS["processor"]().component in ("Learner", "RolloutWorker")


def test_advice_is_flags_with_values():
    assert RUNS["taking turns"]().advice[0].change == "--async_rl=True"
    assert [advice.change for advice in RUNS["buffers"]().advice] == [
        "--num_batches_to_accumulate=4",
        "--batch_size=1024",
    ]
    assert RUNS["small inference batches"]().advice[0].change == "--num_envs_per_worker=32"


def test_texts_are_short_and_data_is_whole():
    verdict = RUNS["learner"]()
    lines = format_verdict(verdict).splitlines()
    assert lines[0] == ("Training is the limit: the Learner cannot keep up with the workers (5,000 frames/s over 60 s)")
    assert lines[1] == "  - Learner_0 trains 97 % of the time and waits 3 % for data"
    assert lines[-2].startswith("  try --precision=bf16: where the processor or GPU has it; expected: 4,")
    assert len(lines) <= 7
    plain = verdict_to_dict(verdict)
    assert plain["cause"] == "learner"
    assert plain["advice"][0]["fps"][0] <= plain["advice"][0]["fps"][1]
