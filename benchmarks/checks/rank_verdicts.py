"""Two ranks on two machines: is one timeline of both true, and is it named what holds them up?

The machines are two places on this one (`benchmarks.measuring.machine.two_machines`), whose clocks differ by what is
known here. One thing after another is made slow on purpose, in random order: a node, its Learner alone, the network
between them, adding up itself. Environments sleep, so that the work of two machines leaves the processors idle. What
the first rank says of the run has to name it.

Of every run the timeline of both ranks is looked at, too: by how much moments of the second are off, by how much they
may be as is said, and whether trajectories go whole from the step to the gradient.

    python -m benchmarks.checks.rank_verdicts --rounds 3

Every run is kept in results/rank_verdicts.jsonl as soon as it is over, and the same command goes on behind the last one
that is there. The exit status is 1 if fewer than nine tenths are right, a moment is off by more than a millisecond or
than is said, or a trajectory is not whole. It takes root (see there).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measuring.kept_runs import KeptRuns
from benchmarks.measuring.machine.two_machines import AHEAD_S, TwoMachines
from harness.kept_lines import end_when_told
from sample_profiler.profiling.session.session import Session, read_session
from sample_profiler.reports.all_ranks import read_all_ranks
from sample_profiler.reports.run_report.loading import load_report
from sample_profiler.reports.sections.verdict import format_verdict
from sample_profiler.reports.timeline.timeline import Timeline
from sample_profiler.run_folder import RunFolder, name_of_rank
from sample_profiler.vocabulary import CLOCK_ERROR_S

RESULTS = Path(__file__).parents[1] / "results"
_FLAGS = (
    *("--env=slowed_cartpole", "--num_workers=1", "--num_envs_per_worker=4", "--rollout=16", "--batch_size=128"),
    *("--num_batches_per_epoch=1", "--num_epochs=1", "--device=cpu", "--experiment=run"),
)
_USUAL = {"env_ms": 2.0}
_SPARE_S = 90.0
_LEAST_RIGHT = 0.9
_MOST_OFF_MS = 1.0
_MOST_OUTPUT = 3000


@dataclass(frozen=True)
class Case:
    """Something that is slow.

    Attributes:
        right: verdicts that are right about it; empty: any that blames neither a rank nor the network.
        injected: by rank, what `benchmarks.measuring.runs.injected_run` slows beside the usual.
        bandwidth: of the network; empty: as much as there is.
        names: what a right verdict says somewhere.
    """

    right: tuple[str, ...]
    injected: tuple[dict[str, float], dict[str, float]] = field(default=({}, {}))
    bandwidth: str = ""
    names: str = ""


CASES = {
    "nothing": Case(()),
    "a node": Case(("ranks",), ({}, {"env_ms": 6.0}), names="rank 1"),
    "a node's Learner": Case(("ranks",), ({}, {"learner_ms": 300.0}), names="rank 1"),
    "the network": Case(("all-reduce",), bandwidth="10mbit"),
    "adding up": Case(("all-reduce",), ({"all_reduce_ms": 100.0}, {"all_reduce_ms": 100.0})),
}
_OF_RANKS = {"ranks", "all-reduce"}


def run(name: str, seconds: float) -> dict[str, Any]:
    """Train once, and return what was said and seen.

    Args:
        name: of the case.
        seconds: how long to train.
    """
    case = CASES[name]
    with tempfile.TemporaryDirectory(prefix="sample_profiler_ranks_") as folder:
        _train(case, Path(folder), seconds)
        verdict = load_report(Path(folder) / "run").verdict
        looked = look_at_timeline(Path(folder))
    is_right = verdict.cause in case.right if case.right else verdict.cause not in _OF_RANKS
    is_right = is_right and case.names in format_verdict(verdict)
    said = {"cause": verdict.cause, "headline": verdict.headline, "evidence": verdict.evidence, "fps": verdict.fps}
    return {"case": name, "is_right": is_right, **said, **looked}


def _train(case: Case, folder: Path, seconds: float) -> None:
    words = [sys.executable, "-m", "benchmarks.measuring.runs.injected_run", *_FLAGS]
    words += [f"--train_dir={folder}", f"--train_for_seconds={seconds}"]
    logs = [folder / f"log_{rank}.txt" for rank in range(len(case.injected))]
    with TwoMachines(case.bandwidth) as machines:
        processes = []
        try:
            for rank, log in enumerate(logs):
                variables = {"INJECTED": json.dumps(_USUAL | case.injected[rank])}
                processes.append(machines.start(rank, words, variables, log))
            statuses = [process.wait(seconds + _SPARE_S) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    for status, log in zip(statuses, logs, strict=True):
        if status:
            raise SystemExit(f"{case}: {statuses}\n{log.read_text()[-_MOST_OUTPUT:]}")


def look_at_timeline(folder: Path) -> dict[str, Any]:
    """Return what is true of the timeline of two ranks, the second of which has a clock that is ahead.

    Args:
        folder: that has those of both.
    """
    both, second = read_all_ranks(folder / "run"), read_session(RunFolder(folder / name_of_rank("run", 1)).path)
    moved = [record for record in both.processes if record.rank == 1]
    ahead_s = {(before.read_ns - after.read_ns) / 1e9 for before, after in zip(second.processes, moved, strict=True)}
    whole, broken = count_trajectories(Timeline(both.processes).lines())
    return {
        "off_by_ms": max(abs(each - AHEAD_S) for each in ahead_s) * 1000,
        "error_ms": 1000 * _least_error_s(second),
        "whole": whole,
        "broken": broken,
    }


def _least_error_s(session: Session) -> float:
    return min(
        (
            gauge.value
            for record in session.processes
            for name, gauge in record.gauges.items()
            if name.rpartition("/")[2] == CLOCK_ERROR_S
        ),
        default=float("inf"),
    )


def count_trajectories(lines: Iterable[str]) -> tuple[int, int]:
    """Return how many trajectories of a timeline go from the worker over the Batcher to the Learner, and how many not.

    Those at the ends of what is recorded of their rank, which are as long as its longest whole one, may lack what was
    before or comes after it.

    Args:
        lines: events of a Chrome trace.
    """
    owners: dict[int, str] = {}
    chains: dict[int, list[tuple[float, str, str]]] = {}
    for event in map(json.loads, lines):
        if event["ph"] == "M" and event["name"] == "process_name":
            owners[event["pid"]] = event["args"]["name"]
        elif event["ph"] in "stf" and event["name"] == "trajectory":
            chains.setdefault(event["id"], []).append((event["ts"], event["ph"], owners[event["pid"]]))
    by_rank: dict[str, list[list[tuple[float, str, str]]]] = {}
    for chain in chains.values():
        by_rank.setdefault(_rank_of(chain[0][2]), []).append(chain)
    counts = list(map(_count_in_rank, by_rank.values()))
    return sum(whole for whole, _ in counts), sum(broken for _, broken in counts)


def _count_in_rank(chains: Sequence[list[tuple[float, str, str]]]) -> tuple[int, int]:
    whole = list(filter(_is_whole, chains))
    if not whole:
        return 0, len(chains)
    edge_us = max(chain[-1][0] - chain[0][0] for chain in whole)
    begin_us = min(chain[0][0] for chain in whole) + edge_us
    end_us = max(chain[-1][0] for chain in whole) - edge_us
    return len(whole), sum(begin_us < chain[0][0] < end_us for chain in chains if not _is_whole(chain))


def _is_whole(chain: Sequence[tuple[float, str, str]]) -> bool:
    ranks = {_rank_of(owner) for _, _, owner in chain}
    kinds = [owner.rpartition(" ")[2].partition("_")[0] for _, _, owner in chain]
    phases = "".join(phase for _, phase, _ in chain)
    return phases == "stf" and kinds == ["RolloutWorker", "Batcher", "Learner"] and len(ranks) == 1


def _rank_of(owner: str) -> str:
    return owner.rpartition(" ")[0]


def find_problems(result: dict[str, Any]) -> list[str]:
    """Return what is not as it has to be of a run's timeline, in words."""
    problems = []
    if result["off_by_ms"] > min(_MOST_OFF_MS, result["error_ms"]):
        problems.append(f"moments are off by {result['off_by_ms']:.3f} ms, {result['error_ms']:.3f} ms are said")
    if result["broken"] or not result["whole"]:
        problems.append(f"{result['broken']} trajectories are broken, {result['whole']} whole")
    return problems


def main(argv: Sequence[str] | None = None) -> int:
    """Run all cases; the exit status tells whether enough were named, and all timelines true."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each case; default: 3")
    parser.add_argument("--seconds", type=float, default=35.0, help="how long each trains; default: 35")
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES), help="default: all")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--output", type=Path, default=RESULTS / "rank_verdicts.jsonl", help="file of the runs")
    options = parser.parse_args(argv)
    order = [name for name in options.cases for _ in range(options.rounds)]
    random.Random(options.seed).shuffle(order)
    kept = KeptRuns(options.output, {"seconds": options.seconds, "order": order})
    for name in order[len(kept.results) :]:
        kept.add(result := run(name, options.seconds))
        print(f"{'right' if result['is_right'] else 'WRONG'}: {name}: {result['cause']}: {result['headline']}")
        print(f"  off by {result['off_by_ms']:.3f} ms of {result['error_ms']:.3f}, {result['whole']} whole", flush=True)
    for name in options.cases:
        right = [result["is_right"] for result in kept.results if result["case"] == name]
        print(f"{name}: {sum(right)} of {len(right)}")
    problems = [f"{result['case']}: {text}" for result in kept.results for text in find_problems(result)]
    print("\n".join(problems or ["all timelines are true"]))
    num_right = sum(result["is_right"] for result in kept.results)
    return int(bool(problems) or num_right < _LEAST_RIGHT * len(kept.results))


if __name__ == "__main__":
    end_when_told()
    sys.exit(main())
