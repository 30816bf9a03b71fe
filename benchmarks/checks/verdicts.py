"""Does the verdict name the true cause? One thing after another is made slow on purpose, in real runs, in random order.

    python -m benchmarks.checks.verdicts --rounds 5 --seconds 25

After each run the first advice that has a prediction is followed in another one. Advice in words is followed by what it
asks for in this case: what was made slow is as quick as the others again, "faster" and "smaller" is half the time.

Every run is kept in results/verdicts.jsonl as soon as it is over, and the same command goes on behind the last one that
is there; the table counts right verdicts by cause. The exit status is 1 if fewer than 95 % of the verdicts are right or
fewer than 80 % of the predictions hold: of all, and of those that predict a change, since a range that has the
throughput as it was in it holds if nothing happens.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measuring.kept_runs import KeptRuns
from sample_profiler.analysis.verdict import Verdict
from sample_profiler.reports.run_report.loading import load_report
from sample_profiler.reports.run_report.report import RunReport
from sample_profiler.reports.sections.verdict import format_verdict, verdict_to_dict

RESULTS = Path(__file__).parents[1] / "results"
_FLAGS = ("--num_workers=2", "--num_envs_per_worker=16", "--batch_size=1024", "--rollout=32")
_MANY_WORKERS = ("--num_workers=8", "--num_envs_per_worker=2", "--num_batches_to_accumulate=1")
_LEAST_RIGHT, _LEAST_HELD = 0.95, 0.8
_FLAG = re.compile(r"--\w+=\S+")
_THREADS = re.compile(r"torch\.set_num_threads\((\d+)\)")


@dataclass(frozen=True)
class Case:
    """One injected cause.

    Attributes:
        right: verdicts that are right about it.
        injected: what `benchmarks.measuring.runs.injected_run` slows.
        flags: beside the usual ones.
        as_advised: what is slowed instead where right advice in words is followed; empty: words cannot be followed.
        names: what a right verdict says somewhere, beside its cause.
    """

    right: tuple[str, ...]
    injected: dict[str, float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    as_advised: dict[str, float] = field(default_factory=dict)
    names: str = ""


CASES = {
    "environments slow": Case(("environments",), {"env_ms": 1.0, "computes": 1.0}, as_advised={"env_ms": 0.5}),
    "environments sleep": Case(
        ("waiting environments",), {"env_ms": 4.0}, as_advised={"env_ms": 0.0}, names="a moment to come"
    ),
    "environments wait for a disk": Case(
        ("waiting environments",), {"disk_kib": 200.0}, as_advised={"disk_kib": 0.0}, names="a disk"
    ),
    "environments wait for the network": Case(
        ("waiting environments",), {"network_ms": 4.0}, as_advised={"network_ms": 0.0}, names="the network"
    ),
    "rare slow steps": Case(
        ("rare slow steps",),
        {"rare_ms": 400.0, "rare_share": 0.002},
        as_advised={"rare_share": 0.0},
        names="environments",
    ),
    "BLAS threads in environments": Case(
        ("too many threads",), {"blas_threads": 8}, as_advised={"blas_threads": 1}, names="RolloutWorker"
    ),
    "torch threads in environments": Case(
        ("too many threads",), {"torch_threads": 8}, as_advised={"torch_threads": 1}, names="RolloutWorker"
    ),
    "six inference workers": Case(("too many inference workers",), {}, ("--policy_workers_per_policy=6",)),
    "saving too often": Case(
        ("saving",),
        {},
        ("--save_every_sec=0.3", "--encoder_mlp_layers", "1024", "1024", "1024"),
        names="--save_every_sec",
    ),
    "slow observer": Case(("balanced", "processor"), {"observer_ms": 400.0}, names="observer SlowObserver"),
    "a first dataset that never comes": Case(
        ("environments",),
        {"env_ms": 400.0, "computes": 1.0},
        as_advised={"env_ms": 0.0},
        names="a step of an environment takes",
    ),
    "one core": Case(("one core",), {"cores": 1}, as_advised={"cores": 0}),
    "a quota of half a core": Case(("quota",), {"quota_cores": 0.5}, as_advised={"quota_cores": 0.0}),
    "one environment of 32 slow": Case(
        ("slow environment",), {"one_env": 5, "one_env_ms": 8.0}, as_advised={"one_env_ms": 0.0}
    ),
    "one worker slow": Case(
        ("slow worker",), {"one_worker": 1, "one_worker_ms": 1.0}, as_advised={"one_worker_ms": 0.0}
    ),
    "inference slow": Case(("inference",), {"inference_ms": 10.0}, as_advised={"inference_ms": 5.0}),
    "learner slow": Case(("learner",), {"learner_ms": 300.0}, as_advised={"learner_ms": 150.0}),
    # Memory is laid out for the batch and dealt out to the workers, so where all are as quick as each other the Learner
    # has a batch before any of them waits. Where most are slow, the quick ones fill their own memory, and wait with the
    # Learner for the others if it holds less than a batch. Here it is the batch that is too large: the quick workers
    # have memory for five sixths of one, and would have enough for batches of 512.
    "batch too large for the buffers": Case(
        ("buffers",),
        {"slow_workers_from": 3, "slow_workers_ms": 15.0},
        (*_MANY_WORKERS, "--batch_size=2048"),
    ),
    # The quick workers lack two trajectories of the usual batch, and the slow ones are very slow.
    "batch as large as the buffers": Case(
        ("buffers",),
        {"slow_workers_from": 3, "slow_workers_ms": 20.0},
        _MANY_WORKERS,
    ),
    # A worker is slow beside the median of the others: five slow ones of eight, as above, are the rule among
    # themselves, four are not.
    "half of the workers slow": Case(
        ("slow worker",),
        {"slow_workers_from": 4, "slow_workers_ms": 20.0},
        _MANY_WORKERS,
        as_advised={"slow_workers_ms": 0.0},
    ),
    "sampling and training take turns": Case(("taking turns",), {}, ("--batch_size=8192", "--async_rl=False")),
    "too many threads": Case(("too many threads",), {"learner_threads": 24}),
    "tiny inference batches": Case(("small inference batches",), {}, ("--num_envs_per_worker=2",)),
    "nothing wrong": Case(("balanced", "processor")),
}


def run(name: str, seconds: float, *, follows: bool) -> dict[str, Any]:
    """Train once and return the verdict beside what was injected.

    Args:
        name: of the case.
        seconds: how long to train.
        follows: whether to train again as the first advice with a prediction says, and to look whether that holds.
    """
    case = CASES[name]
    report = _train(case.injected, case.flags, seconds)
    verdict = report.verdict
    result = {
        "case": name,
        "is_right": verdict.cause in case.right and case.names in format_verdict(verdict),
        "verdict": verdict_to_dict(verdict),
        "loads": _loads(report),
    }
    if follows:
        result |= _follow(case, verdict, seconds)
    return result


def _follow(case: Case, verdict: Verdict, seconds: float) -> dict[str, Any]:
    predicted = next((advice for advice in verdict.advice if advice.fps is not None), None)
    if predicted is None or predicted.fps is None or verdict.fps is None:
        return {}
    advised = following(case, verdict, predicted.change)
    if advised is None:
        return {"no_setting": predicted.change}
    injected, flags = advised
    fps = _train(injected, (*case.flags, *flags), seconds).facts.fps
    low, high = predicted.fps
    followed = {
        "change": predicted.change,
        "range": [low, high],
        "before": verdict.fps,
        "fps": fps,
        "predicts_change": not low <= verdict.fps <= high,
        "is_in_range": fps is not None and low <= fps <= high,
    }
    return {"followed": followed}


def following(case: Case, verdict: Verdict, change: str) -> tuple[dict[str, float], tuple[str, ...]] | None:
    """Return what is injected and which flags are added where an advice is followed.

    Args:
        case: what was run.
        verdict: on that run.
        change: what it advises.

    Returns:
        None where it is in words that nothing here does, such as those of a wrong verdict.
    """
    flags = setting_of(change)
    if flags is not None:
        return case.injected, flags
    threads = _THREADS.fullmatch(change)
    if threads and verdict.component.startswith("Learner"):
        return case.injected | {"learner_threads": int(threads[1])}, ()
    if verdict.cause in case.right and case.as_advised:
        return case.injected | case.as_advised, ()
    return None


def setting_of(change: str) -> tuple[str, ...] | None:
    """Return the flags that an advice asks for.

    Args:
        change: such as "--batch_size=512 --rollout=64".

    Returns:
        None where it is in words.
    """
    words = change.split()
    return tuple(words) if words and all(_FLAG.fullmatch(word) for word in words) else None


def _train(injected: dict[str, float], own_flags: tuple[str, ...], seconds: float) -> RunReport:
    with tempfile.TemporaryDirectory(prefix="sample_profiler_verdicts_") as folder:
        flags = [*_FLAGS, *own_flags, f"--train_for_seconds={seconds}", f"--train_dir={folder}", "--experiment=run"]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.measuring.runs.injected_run", *flags],
            env={**os.environ, "INJECTED": json.dumps(injected)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(
                f"{injected} {own_flags}: status {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-999:]}"
            )
        return load_report(Path(folder) / "run")


def _loads(report: RunReport) -> dict[str, Any]:
    return {
        load.name: {"busy": round(load.busy, 3), "waits": {k: round(v, 3) for k, v in load.waits.items()}}
        | {"cpu": load.cpu and round(load.cpu, 2), "starved": load.starved and round(load.starved, 2)}
        for load in report.facts.components
    } | {"machine": report.facts.machine_busy}


def _describe(result: dict[str, Any]) -> str:
    verdict = result["verdict"]
    text = f"{'right' if result['is_right'] else 'WRONG'}: {result['case']}: {verdict['cause']}: {verdict['headline']}"
    if followed := result.get("followed"):
        low, high = followed["range"]
        seen = "no" if followed["fps"] is None else f"{followed['fps']:,.0f}"
        text += f"\n  {followed['change']}: {followed['before']:,.0f} frames/s before, "
        text += f"{low:,.0f} to {high:,.0f} predicted, {seen} seen"
        text += "" if followed["predicts_change"] else " (what holds if nothing changes, too)"
    if "no_setting" in result:
        text += f"\n  {result['no_setting']}: nothing that can be followed here"
    return text


def predictions(results: Sequence[Mapping[str, Any]], *, of_change: bool | None = None) -> list[bool]:
    """Return which predictions held.

    Args:
        results: of runs.
        of_change: True: of those alone whose range does not have the throughput as it was in it; False: of the others.
    """
    followed = [result["followed"] for result in results if "followed" in result]
    return [each["is_in_range"] for each in followed if of_change is None or each["predicts_change"] == of_change]


def find_faults(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return which shares are too small, or of nothing at all, in words."""
    shares = (
        ("verdicts are right", [result["is_right"] for result in results], _LEAST_RIGHT),
        ("predictions held", predictions(results), _LEAST_HELD),
        ("predictions of a change held", predictions(results, of_change=True), _LEAST_HELD),
    )
    faults = [
        f"{sum(good)} of {len(good)} {what}, {least:.0%} are wanted"
        for what, good, least in shares
        if sum(good) < least * len(good)
    ]
    if not predictions(results, of_change=True):
        faults.append(f"no prediction {'of a change ' if predictions(results) else ''}was tried")
    return faults


def _describe_all(results: Sequence[Mapping[str, Any]], cases: Sequence[str]) -> str:
    lines = []
    for name in cases:
        right = [result["is_right"] for result in results if result["case"] == name]
        lines.append(f"{name}: {sum(right)} of {len(right)}")
    for what, of_change in (
        ("predictions that held", None),
        ("of those that predict a change", True),
        ("of those that hold if nothing changes, too", False),
    ):
        held = predictions(results, of_change=of_change)
        lines.append(f"{what}: {sum(held)} of {len(held)}")
    if in_words := sum("no_setting" in result for result in results):
        lines.append(f"predictions that nothing was tried for, since their advice cannot be followed here: {in_words}")
    lines.append(f"all: {sum(result['is_right'] for result in results)} of {len(results)}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run all cases; the exit status tells whether enough verdicts are right, and enough predictions hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each case")
    parser.add_argument("--seconds", type=float, default=25.0, help="how long each run trains")
    parser.add_argument(
        "--follow",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run again as advised: does the prediction hold? Without it the status is 1, since none was tried",
    )
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES), help="default: all")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--output", type=Path, default=RESULTS / "verdicts.jsonl", help="file of the runs")
    options = parser.parse_args(argv)
    order = [name for name in options.cases for _ in range(options.rounds)]
    random.Random(options.seed).shuffle(order)
    kept = KeptRuns(options.output, {"seconds": options.seconds, "follow": options.follow, "order": order})
    for name in order[len(kept.results) :]:
        kept.add(run(name, options.seconds, follows=options.follow))
        print(_describe(kept.results[-1]), flush=True)
    print(_describe_all(kept.results, options.cases))
    faults = find_faults(kept.results)
    print(f"NOT as wanted: {'; '.join(faults)}" if faults else "as wanted")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
