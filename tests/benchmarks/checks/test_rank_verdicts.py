"""Whether a timeline of two ranks is true, and what fails: made-up traces and runs."""

from __future__ import annotations

import json

import pytest

from benchmarks.checks import rank_verdicts
from benchmarks.checks.rank_verdicts import CASES, count_trajectories, find_problems, main

NAMES = (
    "RolloutWorker_w0",
    "Batcher_0",
    "Learner_0",
    "rank 1 RolloutWorker_w0",
    "rank 1 Batcher_0",
    "rank 1 Learner_0",
)


def trace(*chains):
    """Return a trace with chains of (moment, process) as arrows, and others."""
    events = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}} for pid, name in enumerate(NAMES)]
    for number, chain in enumerate(chains):
        phases = ["s", *"t" * (len(chain) - 2), "f"]
        events += [
            {"ph": phase, "name": "trajectory", "id": number, "pid": pid, "ts": ts}
            for phase, (ts, pid) in zip(phases, chain, strict=True)
        ]
    events.append({"ph": "s", "name": "weights", "id": 99, "pid": 2, "ts": 5.0})
    return map(json.dumps, events)


def chain(begin_us, *processes):
    return [(begin_us + 20.0 * number, process) for number, process in enumerate(processes)]


ENDS = (chain(0.0, 0, 1, 2), chain(900.0, 0, 1, 2))


def test_a_trajectory_is_whole_that_goes_from_a_worker_over_the_batcher_to_the_learner_of_its_rank():
    assert count_trajectories(trace(*ENDS, chain(500.0, 0, 1, 2), chain(500.0, 3, 4, 5))) == (4, 0)
    for broken in (chain(500.0, 0, 1), chain(500.0, 0, 4, 5), chain(500.0, 0, 1, 2, 2), chain(500.0, 3, 4)):
        assert count_trajectories(trace(*ENDS, broken)) == (2, 1)


def test_at_the_ends_of_what_is_recorded_of_a_rank_a_part_may_be_missing():
    assert count_trajectories(trace(*ENDS, chain(30.0, 1, 2), chain(905.0, 0, 1), chain(990.0, 0, 1))) == (2, 0)


@pytest.mark.parametrize(
    ("seen", "problem"),
    [
        ({}, None),
        ({"off_by_ms": 0.3}, "moments are off by 0.300 ms, 0.200 ms are said"),
        ({"off_by_ms": 1.5, "error_ms": 2.0}, "moments are off by 1.500 ms, 2.000 ms are said"),
        ({"broken": 1}, "1 trajectories are broken, 9 whole"),
        ({"whole": 0}, "0 trajectories are broken, 0 whole"),
    ],
)
def test_moments_have_to_be_right_and_trajectories_whole(seen, problem):
    found = find_problems({"off_by_ms": 0.1, "error_ms": 0.2, "broken": 0, "whole": 9} | seen)
    assert found == ([problem] if problem else [])


@pytest.mark.parametrize(("wrong", "broken", "status"), [((), 0, 0), (("the network",), 0, 1), ((), 1, 1)])
def test_what_was_not_named_and_what_is_not_true_fails(tmp_path, monkeypatch, capsys, wrong, broken, status):
    def run(name, seconds):
        assert seconds == 9.0
        seen = {"off_by_ms": 0.1, "error_ms": 0.2, "broken": broken, "whole": 9}
        return {"case": name, "is_right": name not in wrong, "cause": "ranks", "headline": "all wait", **seen}

    monkeypatch.setattr(rank_verdicts, "run", run)
    path = tmp_path / "runs.jsonl"
    assert main(["--rounds=2", "--seconds=9", f"--output={path}"]) == status
    output = capsys.readouterr().out
    assert f"the network: {0 if wrong else 2} of 2" in output
    assert ("all timelines are true" in output) == (not broken)
    assert len(path.read_text().splitlines()) == 1 + 2 * len(CASES)
