"""Whatever fails, nothing hangs and nothing is left behind: a few cases here, all of them with `make faults`.

FAULT_ROUNDS: number of random moments for every case there is; not set: the few cases.
FAULT_RESULTS: a file to which each case is appended as a line of JSON; then throughput has to be as before, too.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.faults import matrix
from tests.faults.matrix import FAULTS, MODES, VICTIMS, describe_throughput, is_possible, run_case
from tests.integration.runs import load_all_checkpoints

NUM_ROUNDS = int(os.environ.get("FAULT_ROUNDS", "0"))
RESULTS = os.environ.get("FAULT_RESULTS")
LATEST_MOMENT_S = 9.0
KILLS_OF_WORKERS = 20  # the commonest fault of all; its moment matters most

FEW = [
    ("kill", "RolloutWorker_w0", "async", 0),
    ("kill", "RolloutWorker_w0", "sync", 0),
    ("hang", "RolloutWorker_w0", "own inference", 0),
    ("exception", "RolloutWorker_w0", "async", 0),
    ("stop", "game", "async", 0),
    ("kill", "game", "serial", 0),
    ("stop", "game", "serial", 0),
    ("terminate", "game", "serial", 0),
    ("exception", "Learner_0", "serial", 0),
    ("stop", "Learner_0", "async", 0),
    ("terminate", "Batcher_0", "async", 0),
    ("terminate", "RolloutWorker_w0", "own inference", 0),
    ("hang", "InferenceWorker_p0-w0", "async", 0),
    ("memory", "Batcher_0", "async", 0),
    ("stop", "Runner", "async", 0),
    ("hang", "Runner", "sync", 0),
]


def all_cases() -> list[tuple[str, str, str, int]]:
    """Return every possible case with the numbers of its rounds."""
    cases = []
    for fault, victim, mode in itertools.product(FAULTS, VICTIMS, MODES):
        is_commonest = (fault, victim) == ("kill", "RolloutWorker_w0")
        if is_possible(fault, victim, mode):
            num_rounds = max(NUM_ROUNDS, KILLS_OF_WORKERS if is_commonest else 0)
            cases += [(fault, victim, mode, number) for number in range(num_rounds)]
    return cases


@pytest.mark.parametrize(("fault", "victim", "mode", "number"), all_cases() if NUM_ROUNDS else FEW)
def test_a_fault_is_survived_or_ends_the_run_and_leaves_nothing(
    fault: str, victim: str, mode: str, number: int, tmp_path: Path
) -> None:
    after_s = random.Random(f"{fault} {victim} {mode} {number}").uniform(0, LATEST_MOMENT_S)
    case = run_case(fault, victim, mode, after_s if NUM_ROUNDS else 0.3, measures=bool(RESULTS), folder=tmp_path)
    if RESULTS:
        with Path(RESULTS).open("a") as file:
            file.write(json.dumps(asdict(case)) + "\n")
    assert case.problems == []


def test_workers_are_killed_at_many_moments_in_every_parallel_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "NUM_ROUNDS", 1)
    cases = all_cases()
    for mode in MODES:
        kills = [case for case in cases if case[:3] == ("kill", "RolloutWorker_w0", mode)]
        assert len(set(kills)) == (0 if mode == "serial" else KILLS_OF_WORKERS)
    others = [case for case in cases if case[:2] != ("kill", "RolloutWorker_w0")]
    assert {number for *_, number in others} == {0}


def test_the_share_of_runs_that_are_as_fast_as_before_is_told() -> None:
    cases = [{"throughput": ratio} for ratio in (None, 1.02, 0.95, 0.6, 0.97)]
    text = describe_throughput(cases)
    assert text.startswith(
        "3 of 4 runs whose worker was replaced (75%) were back at 95% of an undisturbed run's throughput within 30 s"
    )
    assert text.endswith("the lowest ratio is 0.60")
    assert describe_throughput(cases[:1]) == "No throughput was measured after a replacement"


def test_what_a_game_does_not_die_of_replaces_nobody() -> None:
    cases = [(victim, mode) for victim in VICTIMS for mode in MODES if is_possible("terminate", victim, mode)]
    replaced = [case for case in cases if matrix.is_replaced("terminate", *case)]
    assert replaced == [("RolloutWorker_w0", mode) for mode in MODES if mode != "serial"]
    assert [case for case in cases if case[1] == "serial"] == [("Runner", "serial"), ("game", "serial")]


class Live:
    """Stands in for a run whose worker is replaced at once, and which trains on at half its speed."""

    output = "takes its place"

    def __init__(self) -> None:
        self.events: list[str] = []
        self.process = self

    def everybody(self) -> list[Any]:
        self.events.append("everybody")
        return []

    def send_signal(self, number: signal.Signals) -> None:
        self.events.append(number.name)

    def wait(self, timeout_s: float) -> int:
        return 130


@pytest.mark.parametrize(("after", "is_problem"), [(100.0, False), (94.0, True)])
def test_a_run_that_stays_slow_is_a_problem_and_successors_are_looked_for(
    monkeypatch: pytest.MonkeyPatch, after: float, is_problem: bool
) -> None:
    frames, clock = itertools.count(), itertools.count(step=5)
    monkeypatch.setattr(matrix, "num_frames", lambda _: float(next(frames)))
    monkeypatch.setattr(matrix, "throughput", lambda _: after)
    monkeypatch.setattr(matrix.time, "monotonic", lambda: float(next(clock)))
    case = matrix.Case("kill", "RolloutWorker_w0", "async", 0.0, problems=[])
    live = Live()
    matrix._expect_replacement(case, live, before=100.0)
    assert live.events == ["everybody", "SIGINT"], "what is there only since then is seen before the run ends"
    assert case.problems == (["94% of the throughput 30 s after the worker was lost"] if is_problem else [])


def test_every_checkpoint_is_loaded_not_only_the_newest(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_all_checkpoints(tmp_path)
    for name in (
        "checkpoint_000000001_1.pth",
        "best_000000001_1_reward_0.000.pth",
        "milestones/checkpoint_000000001_1.pth",
    ):
        path = tmp_path / "checkpoint_p0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"frames": 1}, path)
        (path.parent / ".partial_1_checkpoint_000000002_2.pth").write_bytes(b"half")
    assert len(load_all_checkpoints(tmp_path)) == 3
    path.write_bytes(b"damaged")
    with pytest.raises(Exception, match=r".+"):
        load_all_checkpoints(tmp_path)
