"""Captures of rollouts that an observer asks a live run for, in both wirings: rules TR6, TR9 and TR11 to TR14.

Ranges are armed when Python starts, so each wiring is run once in a process of its own; the tests read what it left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.runs import SMALL
from sample_profiler.profiling.captures.rollouts.profiler import ROLLOUT_END
from sample_profiler.switches import RANGES_VARIABLE

SCRIPT = Path(__file__).with_name("captured_runs.py")
ROLLOUT = 16  # that of SMALL
NUM_ENVS = 4
FLAGS = (
    *("--env=pole", "--num_workers=2", f"--num_envs_per_worker={NUM_ENVS}", "--worker_num_splits=1", *SMALL),
    *("--use_rnn=False", "--device=cpu", "--decorrelate_envs_on_one_worker=False", "--train_for_seconds=90"),
)


@dataclass
class Captured:
    """What a run has left behind.

    Attributes:
        folder: its traces; the run's folder is `run` in it.
        results: what its observer noted.
        is_serial: all components were in one process.
    """

    folder: Path
    results: dict[str, Any]
    is_serial: bool

    def trace(self, name: str) -> dict[str, Any]:
        trace: dict[str, Any] = json.loads((self.folder / name).read_text())
        return trace

    def count(self, name: str) -> Counter[str]:
        """Count the named ranges of a trace."""
        events = self.trace(name)["traceEvents"]
        return Counter(e["name"] for e in events if e.get("cat") == "user_annotation" and e["ph"] == "X")

    def hook_calls(self, worker: int) -> list[tuple[int, str]]:
        """Return the rollouts that a worker's hook was called with, and who the hook was."""
        lines = (self.folder / f"hook_{worker}").read_text().splitlines()
        return [(int(rollout), hook) for rollout, hook in (line.split() for line in lines)]


@pytest.fixture(scope="module", params=["serial", "parallel"])
def captured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Captured:
    folder = tmp_path_factory.mktemp("captured")
    is_serial = request.param == "serial"
    wiring = (f"--serial_mode={is_serial}", f"--async_rl={not is_serial}")
    result = subprocess.run(
        [sys.executable, str(SCRIPT), *FLAGS, *wiring, f"--train_dir={folder}", "--experiment=run"],
        env={**os.environ, RANGES_VARIABLE: "1", "TRACES": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert "The run has ended: everything has been captured" in result.stdout
    return Captured(folder, json.loads((folder / "results.json").read_text()), is_serial)


def test_tr6_the_runner_switches_ranges_of_every_worker_also_before_the_start(captured: Captured) -> None:
    for name, is_on in (("off", False), ("worker_0", True), ("worker_1", True), ("run/profile/worker_0", False)):
        counts = captured.count(f"{name}.json")
        assert counts[ROLLOUT_END] >= 1
        assert (counts["AgentsEnv.step"] > 0) is is_on, name
    assert captured.count("end.json")["AgentsEnv.step"]


def test_tr9_tr11_tr12_captures_end_by_themselves_with_the_rollouts_that_count(captured: Captured) -> None:
    for worker in range(2):
        described = captured.trace(f"worker_{worker}.json")["sample_profiler"]
        counts = captured.count(f"worker_{worker}.json")
        assert described["worker"] == worker
        assert described["warmup_rollouts"] == 1
        assert len(described["rollouts"]) == counts[ROLLOUT_END] == 2
        if not captured.is_serial:  # else its trace shows the other worker's rollouts as well
            assert counts["SteppingGroup.step"] == 2 * ROLLOUT
            assert counts["AgentsEnv.step"] == 2 * ROLLOUT * NUM_ENVS


def test_tr9_what_cannot_be_is_an_error_in_the_observer(captured: Captured) -> None:
    errors = captured.results["errors"]
    assert errors["twice"].startswith("CommandError: RolloutWorker_w0: ")
    assert "a capture of rollout worker 0 is on already" in errors["twice"]
    assert errors["worker"].startswith("ValueError: there is no rollout worker 2: there are 2")
    assert errors["counts"].startswith("ValueError: num_rollouts=1")
    assert errors["name"].startswith("TypeError: ")
    assert "enable_profile() got an unexpected keyword argument 'num_rollout'" in errors["name"]


def test_tr10_tr13_disabling_exports_early_to_the_run_s_folder_and_is_a_no_op_when_off(captured: Captured) -> None:
    assert captured.results["early"] == [str(captured.folder / "run" / "profile" / "worker_0.json")]
    assert captured.results["again"] == []
    assert len(captured.trace("run/profile/worker_0.json")["sample_profiler"]["rollouts"]) >= 1


def test_tr13_the_hook_that_was_there_is_called_all_the_time_and_stays_the_same_object(captured: Captured) -> None:
    for worker in range(2):
        numbers = [rollout for rollout, _ in captured.hook_calls(worker)]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "not one rollout was left out"
        assert len({hook for _, hook in captured.hook_calls(worker)}) == 1
        in_the_trace = captured.trace(f"worker_{worker}.json")["sample_profiler"]["rollouts"]
        assert numbers[0] < in_the_trace[0] <= in_the_trace[-1] < numbers[-1], "before, during and after it"


def test_tr14_the_end_of_the_run_exports_what_there_is(captured: Captured) -> None:
    described = captured.trace("end.json")["sample_profiler"]
    assert described["worker"] == 1
    assert len(described["rollouts"]) == captured.count("end.json")[ROLLOUT_END] >= 1
