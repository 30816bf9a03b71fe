"""Whatever fails, nothing hangs and nothing is left behind: a few cases here, all of them with `make faults`.

FAULT_ROUNDS: number of random moments for every case there is; not set: the few cases.
FAULT_RESULTS: a file to which each case is appended as a line of JSON; then throughput is compared, too.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.faults.matrix import FAULTS, MODES, VICTIMS, describe_throughput, is_possible, run_case

NUM_ROUNDS = int(os.environ.get("FAULT_ROUNDS", "0"))
RESULTS = os.environ.get("FAULT_RESULTS")
KILLS_OF_WORKERS = 20  # the commonest fault of all; its moment matters most

FEW = [
    ("kill", "RolloutWorker_w0", "async", 0),
    ("kill", "RolloutWorker_w0", "sync", 0),
    ("hang", "RolloutWorker_w0", "own inference", 0),
    ("exception", "RolloutWorker_w0", "async", 0),
    ("stop", "game", "async", 0),
    ("kill", "game", "serial", 0),
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
        is_commonest = (fault, victim, mode) == ("kill", "RolloutWorker_w0", "async")
        if is_possible(fault, victim, mode):
            num_rounds = max(NUM_ROUNDS, KILLS_OF_WORKERS if is_commonest else 0)
            cases += [(fault, victim, mode, number) for number in range(num_rounds)]
    return cases


@pytest.mark.parametrize(("fault", "victim", "mode", "number"), all_cases() if NUM_ROUNDS else FEW)
def test_a_fault_is_survived_or_ends_the_run_and_leaves_nothing(
    fault: str, victim: str, mode: str, number: int, tmp_path: Path
) -> None:
    after_s = random.Random(f"{fault} {victim} {mode} {number}").uniform(0, 3)
    case = run_case(fault, victim, mode, after_s if NUM_ROUNDS else 0.3, measures=bool(RESULTS), folder=tmp_path)
    if RESULTS:
        with Path(RESULTS).open("a") as file:
            file.write(json.dumps(asdict(case)) + "\n")
    assert case.problems == []


def test_the_share_of_runs_that_are_as_fast_as_before_is_told() -> None:
    cases = [{"throughput": ratio} for ratio in (None, 1.02, 0.95, 0.6, 0.97)]
    text = describe_throughput(cases)
    assert text.startswith(
        "3 of 4 runs whose worker was replaced (75%) were back at 95% of their throughput within 30 s"
    )
    assert text.endswith("the lowest ratio is 0.60")
    assert describe_throughput(cases[:1]) == "No throughput was measured after a replacement"
