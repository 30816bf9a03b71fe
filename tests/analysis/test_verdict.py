"""The verdict on runs whose figures are made up: each cause by the figures that it shows itself in."""

from __future__ import annotations

from typing import get_args

import pytest

from sample_profiler.analysis.accounts import ComponentAccount
from sample_profiler.analysis.facts import ComponentLoad, RunFacts
from sample_profiler.analysis.verdict import Cause, judge
from sample_profiler.config import parse_config
from sample_profiler.reports.verdict import format_verdict, verdict_to_dict

SECONDS = 60.0


def load(name, busy, waits=None, blocks=None, counts=None, cpu=0.5, starved=0.1, gauges=None):
    wall_ns = round(SECONDS * 1e9)
    account = ComponentAccount(name, name, 1, wall_ns, {}, {}, 0, 0, is_parallel=False)
    kind = name.partition("_")[0]
    return ComponentLoad(
        name, kind, account, busy, waits or {}, blocks or {}, counts or {}, cpu, starved, gauges or {}
    )  # fmt: skip


def worker(index, busy=0.5, inference=0.3, learner=0.2, env_step=0.45, steps=1000, **gauges):
    return load(
        f"RolloutWorker_w{index}",
        busy,
        {"inference": inference, "learner": learner},
        {"env_step": env_step},
        {"env_step": steps},
        gauges=gauges,
    )


def learner(busy, **options):
    forward_head = "train/calculate_losses/forward_head"
    blocks = {"train": 0.9 * busy, "train/update": 0.6 * busy, "train/calculate_losses": 0.3 * busy}
    counts = {"train": 100, forward_head: 100}
    return load("Learner_0", busy, {"batcher": 1 - busy}, blocks | {forward_head: 0.2 * busy}, counts, **options)


def inference(busy=0.4, rows=16.0, sending=0.0, **options):
    blocks = {"handle_policy_step": 0.9 * busy, "handle_policy_step/send_messages": sending}
    gauges = {"batch_rows": rows}
    return load("InferenceWorker_p0-w0", busy, {"requests": 1 - busy}, blocks, gauges=gauges, **options)


def judge_run(*loads, machine_busy=0.8, seconds=SECONDS, start_s=8.0, config=None, is_serial=False):
    flags = {"num_envs_per_worker": 16, "batch_size": 2048, "async_rl": True, "precision": "fp32"} | (config or {})
    return judge(RunFacts(seconds, start_s, 5000.0, 2, machine_busy, is_serial, loads, flags))


RUNS = {
    "not enough data": lambda: judge_run(worker(0), inference(), learner(0.5), seconds=3.0),
    "start-up": lambda: judge_run(worker(0), inference(), learner(0.5), start_s=90.0),
    "serial": lambda: judge_run(worker(0), inference(), learner(0.5), is_serial=True),
    "slow environment": lambda: judge_run(
        worker(0, slowest_env=3, slowest_env_ratio=9.0, slowest_env_share=0.5), worker(1), inference(), learner(0.5)
    ),
    "slow worker": lambda: judge_run(worker(0, steps=300), worker(1), inference(), learner(0.6)),
    "too many threads": lambda: judge_run(
        worker(0), worker(1), inference(), learner(0.9, cpu=1.5, starved=6.0), machine_busy=1.0
    ),
    "taking turns": lambda: judge_run(
        worker(0, learner=0.5), worker(1, learner=0.5), inference(), learner(0.5), config={"async_rl": False}
    ),
    "buffers": lambda: judge_run(worker(0, learner=0.4), worker(1, learner=0.4), inference(), learner(0.6)),
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


def test_a_start_that_was_longer_than_the_rest_is_named_however_short_the_rest_was():
    loads = [worker(0), inference(), learner(0.5)]
    assert judge_run(*loads, start_s=60.0, seconds=5.0).cause == "start-up"
    assert judge_run(*loads, start_s=9.0, seconds=5.0).cause == "not enough data"


@pytest.mark.parametrize(("start_s", "cause"), [(4.0, "start-up"), (1.0, "not enough data")])
def test_a_run_that_was_over_before_it_was_steady_is_told_so(start_s, cause):
    loads = (worker(0), inference(), learner(0.5))
    verdict = judge(RunFacts(5.0, start_s, 0.0, 2, 0.5, False, loads, is_steady=False))
    assert verdict.cause == cause
    assert verdict.headline == f"The run was over before it was steady: its start took {start_s:.0f} s of 5 s"
    assert verdict.advice


def test_the_slowest_are_named():
    assert RUNS["slow worker"]().component == "RolloutWorker_w0"
    assert "Environment 3 is slow" in RUNS["slow environment"]().headline
    assert RUNS["too many threads"]().component == "Learner_0"
    assert RUNS["processor"]().component in ("Learner", "RolloutWorker")


def test_advice_is_flags_with_values():
    assert RUNS["taking turns"]().advice[0].change == "--async_rl=True"
    assert RUNS["buffers"]().advice[0].change == "--batch_size=1024"
    assert RUNS["small inference batches"]().advice[0].change == "--num_envs_per_worker=32"


@pytest.mark.parametrize(
    ("sending", "num_inference_workers", "change"),
    [(0.3, 1, "--inference=worker"), (0.3, 2, "--inference=worker --policy_workers_per_policy=1"), (0.05, 1, None)],
)
def test_inference_that_mostly_wakes_workers_moves_to_them(
    sending: float, num_inference_workers: int, change: str | None
):
    workers = [worker(index, inference=0.7, learner=0.0) for index in range(2)]
    config = {"policy_workers_per_policy": num_inference_workers}
    first = judge_run(*workers, inference(0.95, sending=sending), learner(0.4), config=config).advice[0]
    if change is None:
        assert "--inference" not in first.change
        return
    assert first.change == change
    assert "30 % of the time of InferenceWorker_p0-w0" in first.why
    assert first.fps is not None and first.fps[0] < 5000 * 1.2 < first.fps[1]
    before = f"--env=none --policy_workers_per_policy={num_inference_workers}"
    assert parse_config([*before.split(), *change.split()]).sampling.inference == "worker"


def test_inference_that_waits_for_a_processor_as_everybody_does_is_not_the_limit():
    workers = [worker(index, busy=0.35, inference=0.6, learner=0.0) for index in range(2)]
    for machine_busy, starved, cause in ((0.88, 0.45, "balanced"), (0.88, 0.1, "inference"), (0.5, 0.45, "inference")):
        loads = [*workers, inference(0.94, sending=0.3, starved=starved), learner(0.57)]
        verdict = judge_run(*loads, machine_busy=machine_busy)
        assert verdict.cause == cause
        assert "--inference=worker" in [advice.change for advice in verdict.advice]


def test_without_idle_cores_more_workers_are_no_advice():
    changes = [advice.change for advice in RUNS["environments"]().advice]
    assert not any(change.startswith("--num_workers") for change in changes)
    loads = [*(worker(i, busy=0.95, env_step=0.9, inference=0.05, learner=0.0) for i in range(2)), learner(0.4)]
    changes = [advice.change for advice in judge_run(*loads, machine_busy=0.5).advice]
    assert changes[0] == "--num_workers=3"


def test_nothing_is_promised_beyond_the_processors():
    verdict = judge_run(
        *(worker(i, learner=0.5) for i in range(2)),
        inference(),
        learner(0.5),
        machine_busy=1.0,
        config={"async_rl": False},
    )
    assert verdict.advice[0].fps == (pytest.approx(4750.0), pytest.approx(5750.0))


def test_of_something_else_than_a_training_run_nothing_is_said():
    assert judge_run(load("main", 0.9)).cause == "not enough data"


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
