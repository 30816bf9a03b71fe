"""Limits, sizes and processes of the comparisons: arithmetic and text. No test here makes a run."""

from __future__ import annotations

import pytest

from benchmarks.measuring.frameworks.comparison_tasks import TASKS
from benchmarks.measuring.frameworks.limits import compose, limit_path, read_limits
from benchmarks.measuring.frameworks.peer_runs import _WORKER_PIDS, Measured, Memory
from benchmarks.measuring.runs.scaling_cases import SWEEPS, Case, cases
from benchmarks.scaling import describe, evaluate


def test_the_limit_is_composed_of_core_seconds(tmp_path):
    parts = {"environment": 0.001, "inference": 0.002, "training": 0.001, "other": 5.0}
    assert compose(parts, num_cores=2, frames_per_step=4) == pytest.approx(2 / 0.004 * 4)
    assert read_limits(tmp_path, "doom") == {}
    limit_path(tmp_path, "doom").write_text('{"arms": {"ours": {"limit": 2000}}}')
    assert read_limits(tmp_path, "doom") == {"ours": 2000.0}


def test_rollout_workers_are_found_in_what_a_run_prints():
    text = (
        "[2026-01-31 12:00:00,123][12] Started RolloutWorker_w1 as process 4713\n"
        "[2026-01-31 12:00:00,123][12] Started Learner_0 as process 4712\n"
        "[2026-01-31 12:00:00,124][99] ROLLOUT worker 0\tpid 4714\tparent 4711\n"
    )
    assert _WORKER_PIDS.findall(text) == ["4713", "4714"]


def test_sizes_replace_those_of_the_task():
    flags = Case("cartpole", 2, 128, 64).flags_from(TASKS["cartpole"].flags_of("ours"))
    assert flags[:3] == ["--num_workers=2", "--num_envs_per_worker=128", "--rollout=64"]
    assert sum(flag.startswith(("--num_workers", "--num_envs_per_worker", "--rollout")) for flag in flags) == 3
    assert flags[-2:] == ["512", "512"]


def test_sweeps_cover_what_they_say():
    assert [case.num_envs for case in SWEEPS["games"]] == [16, 32, 64, 128, 192, 192]
    assert [case.num_envs for case in SWEEPS["cartpoles"]] == [32, 256, 1024, 4096]
    assert {case.num_envs for case in SWEEPS["workers"]} == {32}
    assert [case.rollout for case in cases("rollout", is_quick=True)] == [16, 128, 16, 128]


def test_a_run_is_described_by_rate_start_and_memory_per_environment():
    points = [[10.0 + i, 100 * i] for i in range(1, 41)]
    memory = Memory(total=640.0, workers=((40.0, 30.0), (60.0, 50.0)), games=256.0)
    row = evaluate(Case("doom", 2, 16), Measured(points, memory, load=0.1), {"ours": 200.0}, "ours")
    assert (row["steady"], row["whole"], row["first_step_s"], row["share_of_limit"]) == (100.0, 80.0, 11.0, 0.5)
    assert (row["memory_mib"], row["per_env_mib"], row["games_per_env_mib"]) == (640.0, 20.0, 8.0)
    assert (row["worker_pss_mib"], row["worker_uss_mib"]) == (50.0, 40.0)
    assert "50%" in describe({"case": "doom", "arm": "ours", **row})


def test_what_was_not_seen_of_a_run_stays_open():
    row = evaluate(Case("doom", 2, 16), Measured([], None, load=0.1), {"ours": 200.0}, "ours")
    assert set(row.values()) == {None}
    assert describe({"case": "doom", "arm": "ours", **row}).split()[-1] == "–"
    one_step = evaluate(Case("doom", 2, 16), Measured([[5.0, 100]], None, load=0.1), {}, "ours")
    assert (one_step["steady"], one_step["whole"]) == (None, 20.0)
